"""Inputs of a circuit: from JSON or a mapping to the exact numbers of its calculator.

The rules are those of Quod's page in the browser: a number is an integer whose absolute value is
below the modulus, true or false; as text it is decimal or 0x... Lists are flattened and must be
rectangular, and members of objects have dots in their names. Nothing is reduced: a number at or
above the modulus would silently become another one. Errors never show a value, which may be secret.
"""

from __future__ import annotations

import functools
import operator
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from quod.errors import InputError
from quod.formats.strict_json import CIRCUIT_INPUT, parse_json, shown

_NUMBER = re.compile(r"-?(?:[0-9]{1,400}|0[xX][0-9a-fA-F]{1,400})", re.ASCII)
_MAX_DEPTH = 32
_HEADER = struct.Struct("<III")
"""The header of a record: two words of the name's hash, and the count of numbers."""
_MASK = (1 << 64) - 1

Inputs = bytes | str | Mapping[str, Any]


class Signals:
    """The numbers of each input by name, in the order of the document."""

    def __init__(self, inputs: Inputs, prime: int, where: str) -> None:
        self._prime = prime
        self._where = where
        self.numbers: dict[str, list[int]] = {}
        document: object = inputs
        if isinstance(inputs, bytes | str):
            document = parse_json(inputs, where, CIRCUIT_INPUT, integer=str)
        if not isinstance(document, Mapping):
            self._fail('is no object: write {"signal": value, ...}')
        for name, value in document.items():
            if not isinstance(name, str) or not name:
                self._fail("has a name that is no text, or empty")
            self._visit(name, value, 0)

    def records(self, byte_length: int) -> bytes:
        """Return each non-empty signal as the two words of its hash, its count, and its numbers."""
        parts = []
        for name, numbers in self.numbers.items():
            if not numbers:
                continue
            key = hash_of(name)
            parts.append(_HEADER.pack(key >> 32, key & 0xFFFFFFFF, len(numbers)))
            parts += [number.to_bytes(byte_length, "little") for number in numbers]
        return b"".join(parts)

    def _visit(self, name: str, value: object, depth: int) -> None:
        """Add the numbers of a member of the document, which may be nested."""
        if depth > _MAX_DEPTH:
            self._fail(f"is nested too deeply in {shown(name)}")
        if isinstance(value, Mapping):
            for inner, item in value.items():
                if not isinstance(inner, str) or not inner:
                    self._fail(f"has a name in {shown(name)} that is no text, or empty")
                self._visit(f"{name}.{inner}", item, depth + 1)
        elif isinstance(value, list | tuple) and any(
            isinstance(element, Mapping) for element in value
        ):
            for index, item in enumerate(value):
                self._visit(f"{name}[{index}]", item, depth + 1)
        elif name in self.numbers:
            self._fail(f"has {shown(name)} twice, in its own name and in an object")
        else:
            numbers: list[int] = []
            self._list(name, value, numbers, depth)
            self.numbers[name] = numbers

    def _list(self, name: str, value: object, numbers: list[int], depth: int) -> tuple[int, ...]:
        """Append the numbers of a value; return its shape, which the items of a list must share."""
        if not isinstance(value, list | tuple):
            numbers.append(self._number(name, value, len(numbers)))
            return ()
        if depth > _MAX_DEPTH:
            self._fail(f"is nested too deeply in {shown(name)}")
        shapes = {self._list(name, element, numbers, depth + 1) for element in value}
        if len(shapes) > 1:
            self._fail(f"has lists of different lengths, or numbers beside lists, in {shown(name)}")
        return (len(value), *next(iter(shapes), ()))

    def _number(self, name: str, value: object, index: int) -> int:
        """Return a number below the modulus; InputError for anything else."""
        if isinstance(value, str):
            text = value.strip()
            if not _NUMBER.fullmatch(text):
                self._fail(f"has text that is no whole number in {shown(name)}, value {index}")
            number = int(text, 16 if "x" in text or "X" in text else 10)
        else:
            try:
                number = int(operator.index(value))  # type: ignore[arg-type]
            except Exception:
                self._fail(f"has no whole number in {shown(name)}, value {index}")
        if not -self._prime < number < self._prime:
            self._fail(
                f"has a number in {shown(name)}, value {index}, that is not below the modulus of "
                "the circuit's field"
            )
        return number if number >= 0 else number + self._prime

    def _fail(self, message: str) -> NoReturn:
        raise InputError(message, path=self._where)


@functools.lru_cache(maxsize=4096)
def hash_of(name: str) -> int:
    """Return the 64-bit FNV-1a hash by which circom's calculators identify a signal."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & _MASK
    return value


def halves(name: str) -> Iterator[int]:
    """Yield the hash of a name as two signed 32-bit numbers, the form of WebAssembly arguments."""
    key = hash_of(name)
    for half in (key >> 32, key & 0xFFFFFFFF):
        yield half - (1 << 32) if half >> 31 else half
