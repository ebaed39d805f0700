"""Validation of circom's witness calculator as a file, and of its match with a key.

The facts that are checked are constants of the module: circom compiles `getWitnessSize` to a
function that returns a number. (WebAssembly core specification 2.0, section 5, binary format.)
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath

from quod.errors import InputError, MismatchError
from quod.formats import Zkey
from quod.formats.source import read_small
from quod.frozen import frozen

_MAGIC = b"\0asm\x01\0\0\0"
_IMPORT, _EXPORT, _CODE = 2, 7, 10
_FUNCTION, _MEMORY = 0, 2
_I32_CONST, _END = 0x41, 0x0B
_MOST_BYTES = 256 << 20
# The most bytes of LEB128 for a 32-bit number.
_NUMBER_BYTES = 5
# The most imports or exports; circom's modules have some twenty.
_MOST_NAMES = 10_000
# Ids of sections in the order of a module; data counts (12) and tags (13) came later.
_ORDER = bytes([1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11])
_CUSTOM = 0
# The most custom sections, with names and compiler notes; circom's modules have none.
_MOST_CUSTOM = 1000
# Exports of all releases of circom 2; the first lack getInputSignalSize and getInputSize.
_NEEDED = ("init", "getWitness", "setInputSignal", "getWitnessSize", "readSharedRWMemory")


@frozen
class Calculator:
    """A witness calculator of circom 2; `variables` is None if the module does not state it."""

    path: str
    content: bytes
    variables: int | None

    def check(self, key: Zkey) -> None:
        """Raise MismatchError if the calculator is for another circuit than the key."""
        if self.variables is not None and self.variables != key.variables:
            raise MismatchError(
                f"computes a witness of {self.variables} values and {key.path} takes "
                f"{key.variables}; they are of different circuits",
                path=self.path,
            )


def read_calculator(path: str | PathLike[str]) -> Calculator:
    """Read a .wasm file of circom 2; `InputError` for any other."""
    content = read_small(path, limit=_MOST_BYTES, what="a witness calculator", begins=_MAGIC)
    return parse_calculator(content, name=fspath(path))


def parse_calculator(content: bytes, *, name: str = "calculator") -> Calculator:
    """Parse the bytes of a file as `read_calculator` does; errors call their source `name`."""
    if not content.startswith(_MAGIC):
        raise InputError("is no WebAssembly module", path=name, offset=0)
    try:
        sections = _sections(content)
        exports = _exports(sections[_EXPORT]) if _EXPORT in sections else {}
        missing = [export for export in _NEEDED if export not in exports]
        if not missing:
            constant = _constant(sections, exports.get("getWitnessSize"))
            return Calculator(name, content, constant)
    except (IndexError, ValueError) as error:
        raise InputError("is a damaged WebAssembly module", path=name) from error
    raise InputError(
        f"is no witness calculator of circom 2: it exports no {missing[0]}; "
        "compile the circuit with `circom --wasm`",
        path=name,
    )


class _Reader:
    """A reader of consecutive numbers and names; IndexError beyond the end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Read an unsigned LEB128 of 32 bits."""
        value = 0
        for place in range(_NUMBER_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError("a number without an end")

    def bytes(self) -> memoryview:
        size = self.number()
        if self.at + size > len(self.data):
            raise IndexError(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def items(self, read: Callable[[], object]) -> None:
        count = self.number()
        if count > _MOST_NAMES:
            raise ValueError(f"{count} names")
        for _ in range(count):
            read()


def _sections(content: bytes) -> dict[int, memoryview]:
    """Return the non-custom sections, each at most once and in order, as engines require."""
    reader = _Reader(content)
    reader.at = len(_MAGIC)
    sections: dict[int, memoryview] = {}
    place = customs = 0
    while reader.at < len(content):
        kind, section = reader.byte(), reader.bytes()
        if kind == _CUSTOM:
            customs += 1
            if customs > _MOST_CUSTOM:
                raise ValueError(f"more than {_MOST_CUSTOM} custom sections")
            continue
        # ValueError for an unknown, repeated or misplaced section.
        place = _ORDER.index(kind, place) + 1
        sections[kind] = section
    return sections


def _exports(section: memoryview) -> dict[str, int]:
    """Return the functions that a module exports: their indices by name."""
    reader = _Reader(section)
    functions: dict[str, int] = {}

    def read_item() -> None:
        name, kind, index = str(reader.bytes(), "utf-8"), reader.byte(), reader.number()
        if kind == _FUNCTION:
            functions[name] = index

    reader.items(read_item)
    return functions


def _imported_functions(section: memoryview) -> int | None:
    """Return the number of imported functions; None for imports other than functions and memory."""
    reader = _Reader(section)
    kinds: list[int] = []

    def read_item() -> None:
        if not set(kinds) <= {_FUNCTION, _MEMORY}:
            return
        reader.bytes()
        reader.bytes()
        kinds.append(reader.byte())
        # The index of a function's type, or the flag for a maximum and the sizes of memory.
        flag = reader.number()
        if kinds[-1] == _MEMORY:
            reader.number()
            if flag & 1:
                reader.number()

    reader.items(read_item)
    return kinds.count(_FUNCTION) if set(kinds) <= {_FUNCTION, _MEMORY} else None


def _constant(sections: dict[int, memoryview], function: int | None) -> int | None:
    """Return the constant that a function returns, or None if its body is anything else."""
    imported = _imported_functions(sections[_IMPORT]) if _IMPORT in sections else 0
    if function is None or imported is None or _CODE not in sections or function < imported:
        return None
    reader = _Reader(sections[_CODE])
    if function - imported >= reader.number():
        raise IndexError(function)
    for _ in range(function - imported):
        reader.bytes()
    body = reader.bytes()
    if body[:2] != bytes([0, _I32_CONST]) or body[-1] != _END:
        return None
    value = _Reader(body[2:-1])
    number = value.number()
    return number if value.at == len(body) - 3 else None
