"""The input signals of a circuit, for the form of the page.

circom's witness calculator identifies inputs by the hashes of their names. The names come from the
symbols that circom writes (``--sym``) or from an example of an input. Symbols do not say which
signals are inputs, so the page asks the calculator, which knows the sizes of inputs alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from quod.errors import InputError
from quod.formats.strict_json import CIRCUIT_INPUT, parse_json, read_json
from quod.formats.sym import no_symbols, read_symbol_file, symbol_rows
from quod.frozen import frozen

_MAIN = "main."
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_DIMENSIONS = 16
_MOST_SYMBOLS_BYTES = 256 << 20


@frozen
class Signal:
    """A signal of the main component.

    name: Its name.
    dims: The sizes of its nested lists; empty for a single number.
    public: None if unknown.
    """

    name: str
    dims: tuple[int, ...]
    public: bool | None = None

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"name": self.name, "dims": list(self.dims)}
        return row if self.public is None else row | {"public": self.public}


@frozen
class Symbols:
    """Signals that may be inputs, in file order, and the names of the public signals."""

    signals: tuple[Signal, ...]
    publics: tuple[str, ...]


def read_symbols(path: str | PathLike[str], public: int) -> Symbols:
    """Read the signals of the main component from a .sym file.

    `public` is the number of the key's public signals. Raises `InputError` for a malformed file.
    """
    content = read_symbol_file(path, most_bytes=_MOST_SYMBOLS_BYTES)
    return parse_symbols(content, public, name=fspath(path))


def parse_symbols(data: bytes, public: int, *, name: str = "symbols") -> Symbols:
    """Parse the bytes of a .sym file as `read_symbols` does; errors call their source `name`."""
    dims: dict[str, list[int]] = {}
    publics: dict[int, tuple[str, str]] = {}
    main: str | None = None
    for row in symbol_rows(data, name):
        indexed = _indexed(row.name.removeprefix(_MAIN)) if row.name.startswith(_MAIN) else None
        if indexed is None:
            raise no_symbols(row.line, name)
        main = main or row.component
        if row.component != main:
            continue
        signal, indices = indexed
        sizes = dims.setdefault(signal, [0] * len(indices))
        for axis, index in enumerate(indices[: len(sizes)]):
            sizes[axis] = max(sizes[axis], index + 1)
        if 1 <= row.wire <= public:
            publics[row.wire] = row.name.removeprefix(_MAIN), signal
    shown = {signal for _, signal in publics.values()}
    return Symbols(
        tuple(Signal(signal, tuple(sizes), signal in shown) for signal, sizes in dims.items()),
        tuple(publics.get(place, ("", ""))[0] for place in range(1, public + 1)),
    )


def _indexed(full: str) -> tuple[str, list[int]] | None:
    """Split ``a[3][4]`` into its name and its indices; None for more indices than allowed."""
    indices: list[int] = []
    while full.endswith("]"):
        name, bracket, index = full[:-1].rpartition("[")
        if not bracket or not _INDEX.fullmatch(index):
            break
        if len(indices) == _MOST_DIMENSIONS:
            return None
        indices.append(int(index))
        full = name
    return full, indices[::-1]


def read_example(path: str | PathLike[str]) -> tuple[dict[str, Any], tuple[Signal, ...]]:
    """Read an input of a circuit; return it and its signals. `InputError` for a malformed file.

    Numbers become text, so that JavaScript reads them exactly.
    """
    return parse_example(read_json(path, CIRCUIT_INPUT), name=fspath(path))


def parse_example(
    data: bytes | str, *, name: str = "input"
) -> tuple[dict[str, Any], tuple[Signal, ...]]:
    """Parse the text of an input as `read_example` does; errors call its source `name`."""
    document = parse_json(data, name, CIRCUIT_INPUT, integer=str)
    if not isinstance(document, dict):
        raise InputError('is no input of a circuit: {"signal": value, ...}', path=name)
    signals = [
        Signal(signal, sizes)
        for signal, value in document.items()
        if (sizes := _dims(value)) is not None
    ]
    return document, tuple(signals)


def _dims(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of nested lists, or None if they are ragged or hold other values."""
    if isinstance(value, (str, int)):
        return ()
    if not isinstance(value, list) or not value:
        return None
    sizes = {_dims(item) for item in value}
    only = sizes.pop()
    return None if sizes or only is None else (len(value), *only)


def merged(symbols: Symbols | None, example: Sequence[Signal]) -> tuple[Signal, ...]:
    """Return the signals of the form: those of the symbols, or without symbols of the example."""
    return symbols.signals if symbols is not None else tuple(example)
