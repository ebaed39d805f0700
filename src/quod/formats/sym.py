"""Names of signals (`.sym`), as circom writes them.

A line has the number of a signal (its label), its wire, or -1 if simplification removed it, the
number of its component, and its name: ``12,5,1,main.hash.in[0]``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from os import fspath
from typing import NamedTuple

import numpy as np

from quod.errors import InputError, MismatchError
from quod.formats.r1cs import R1cs
from quod.formats.source import Path, read_small

_MAX_BYTES = 1 << 30
_LABEL = re.compile(r"[0-9]{1,19}")
_WIRE = re.compile(r"-1|[0-9]{1,19}")


class SymbolRow(NamedTuple):
    """A line of the file; `wire` is -1 for a signal that is not in the witness."""

    line: int
    label: int
    wire: int
    component: str
    name: str


def read_symbol_file(path: Path, *, max_bytes: int = _MAX_BYTES) -> bytes:
    """Read the bytes of a .sym file or pipe; `InputError` if there are more than `max_bytes`."""
    return read_small(path, limit=max_bytes, what="a .sym file")


def symbol_rows(data: bytes, name: str) -> Iterator[SymbolRow]:
    """Yield the lines of a file, which may have millions; `InputError` for a malformed one."""
    offset = 0
    for number, line in enumerate(io.BytesIO(data), 1):
        try:
            parts = line.decode().rstrip("\r\n").split(",", 3)
        except UnicodeDecodeError as error:
            raise InputError("is not text", path=name, offset=offset + error.start) from error
        if len(parts) != 4 or not (_LABEL.fullmatch(parts[0]) and _WIRE.fullmatch(parts[1])):
            raise no_symbols(number, name)
        yield SymbolRow(number, int(parts[0]), int(parts[1]), parts[2], parts[3])
        offset += len(line)


def no_symbols(line: int, name: str) -> InputError:
    """Return the error for line `line`, which is not a line of a .sym file."""
    return InputError(f"line {line} is not a line of circom's .sym format", path=name)


def wire_names(path: Path, r1cs: R1cs, wires: Collection[int] | None = None) -> dict[int, str]:
    """Return the names of all wires of a constraint system, or of `wires`.

    Wire 0, the constant 1, has none. If several signals share a wire, the label of the wire selects
    the name; a system without labels takes the first. Raises `InputError` for a malformed file and
    for two names of one label, and `MismatchError` if the file is visibly that of another circuit:
    it gives a label another wire, or lacks the label of a wire.
    """
    name = fspath(path)
    wire_set = None if wires is None else {wire for wire in wires if wire}
    names: dict[int, str] = {}
    labels = r1cs.wire_labels
    aliases: list[int] = []
    for row in symbol_rows(read_symbol_file(path), name):
        if row.wire < 0:
            continue
        if row.wire >= r1cs.wires or (len(labels) and row.label > r1cs.labels):
            raise _of_another(r1cs, name)
        is_label = not len(labels) or row.label == labels[row.wire]
        if not is_label:
            aliases.append(row.label)
        if not is_label or (wire_set is not None and row.wire not in wire_set):
            continue
        if names.setdefault(row.wire, row.name) != row.name and len(labels):
            raise InputError(
                f"line {row.line} is the second name of label {row.label}; compile the circuit "
                "again",
                path=name,
            )
    count = r1cs.wires - 1 if wire_set is None else len(wire_set)
    is_complete = len(names) == count if len(labels) else bool(names) or not count
    if not is_complete or np.isin(np.array(aliases, np.uint64), labels).any():
        raise _of_another(r1cs, name)
    return names


def _of_another(r1cs: R1cs, name: str) -> MismatchError:
    return MismatchError(
        f"belongs to another circuit than {r1cs.path}, or lacks lines; give the .sym file that "
        "was written with that circuit",
        path=name,
    )
