"""The input signals of a circuit, from which the page builds its form.

circom's witness calculator identifies inputs by the hashes of their names. The names come from
circom's symbol file (``--sym``) or from an example input. A symbol file does not say which signals
are inputs, so the page asks the calculator, which reports a size for inputs only.
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
from quod.r1cs import Circuit

_MAIN = "main."
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)
_MAX_DIMENSIONS = 16
_MAX_SYMBOLS_BYTES = 256 << 20


@frozen
class Signal:
    """A signal of the main component.

    name: the name without ``main.``.
    dims: the lengths of its nested lists, outermost first; empty for a single number.
    public: whether the signal is public; None if unknown.
    kind: the form of its value, for a circuit in Python (`quod.r1cs.witness_program.steps.Input`);
        "" for signals of circom.
    """

    name: str
    dims: tuple[int, ...]
    public: bool | None = None
    kind: str = ""

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"name": self.name, "dims": list(self.dims)}
        if self.public is not None:
            row["public"] = self.public
        return row | {"kind": self.kind} if self.kind else row


@frozen
class Symbols:
    """The signals of a symbol file.

    signals: the signals of the main component, which may be inputs, in file order.
    publics: the name of each public signal, in order; "" for a public signal without a name.
    """

    signals: tuple[Signal, ...]
    publics: tuple[str, ...]


def signals_of(circuit: Circuit) -> Symbols:
    """Return the signals of a circuit in Python: its inputs, and its public signals."""
    return Symbols(
        tuple(
            Signal(
                declared.name, () if declared.kind == "field" else (len(declared.wires),),
                declared.public, declared.kind,
            )
            for declared in circuit.inputs.values()
        ),
        tuple(circuit.traced.public_names),
    )  # fmt: skip


def read_symbols(path: str | PathLike[str], public: int) -> Symbols:
    """Read the signals of the main component from a .sym file.

    public: the number of public signals of the key.
    Raises InputError for a malformed file.
    """
    content = read_symbol_file(path, max_bytes=_MAX_SYMBOLS_BYTES)
    return parse_symbols(content, public, name=fspath(path))


def parse_symbols(data: bytes, public: int, *, name: str = "symbols") -> Symbols:
    """Parse the bytes of a .sym file as `read_symbols` does; messages name the file `name`."""
    dims: dict[str, list[int]] = {}
    publics: dict[int, tuple[str, str]] = {}
    main: str | None = None
    for row in symbol_rows(data, name):
        parsed = (
            _split_indices(row.name.removeprefix(_MAIN)) if row.name.startswith(_MAIN) else None
        )
        if parsed is None:
            raise no_symbols(row.line, name)
        main = main or row.component
        if row.component != main:
            continue
        signal, indices = parsed
        sizes = dims.setdefault(signal, [0] * len(indices))
        for axis, index in enumerate(indices[: len(sizes)]):
            sizes[axis] = max(sizes[axis], index + 1)
        if 1 <= row.wire <= public:
            publics[row.wire] = row.name.removeprefix(_MAIN), signal
    public_signals = {signal for _, signal in publics.values()}
    return Symbols(
        tuple(
            Signal(signal, tuple(sizes), signal in public_signals) for signal, sizes in dims.items()
        ),
        tuple(publics.get(wire, ("", ""))[0] for wire in range(1, public + 1)),
    )


def _split_indices(text: str) -> tuple[str, list[int]] | None:
    """Split ``a[3][4]`` into ``a`` and [3, 4]; None for more than 16 indices."""
    indices: list[int] = []
    while text.endswith("]"):
        name, bracket, index = text[:-1].rpartition("[")
        if not bracket or not _INDEX.fullmatch(index):
            break
        if len(indices) == _MAX_DIMENSIONS:
            return None
        indices.append(int(index))
        text = name
    return text, indices[::-1]


def read_example(path: str | PathLike[str]) -> tuple[dict[str, Any], tuple[Signal, ...]]:
    """Read an example input of a circuit; return its document and its signals.

    Numbers become strings, so that JavaScript reads them exactly. Raises InputError for a malformed
    file.
    """
    return parse_example(read_json(path, CIRCUIT_INPUT), name=fspath(path))


def parse_example(
    data: bytes | str, *, name: str = "input"
) -> tuple[dict[str, Any], tuple[Signal, ...]]:
    """Parse the text of an input as `read_example` does; messages name the file `name`."""
    document = parse_json(data, name, CIRCUIT_INPUT, integer=str)
    if not isinstance(document, dict):
        raise InputError('is not an input of a circuit: {"signal": value, ...}', path=name)
    signals = [
        Signal(signal, sizes)
        for signal, value in document.items()
        if (sizes := _dims(value)) is not None
    ]
    return document, tuple(signals)


def _dims(value: Any) -> tuple[int, ...] | None:
    """Return the lengths of nested lists, or None if they are ragged or hold other values."""
    if isinstance(value, (str, int)):
        return ()
    if not isinstance(value, list) or not value:
        return None
    sizes = {_dims(item) for item in value}
    inner = sizes.pop()
    return None if sizes or inner is None else (len(value), *inner)


def merged(symbols: Symbols | None, example: Sequence[Signal]) -> tuple[Signal, ...]:
    """Return the signals of the form: the signals of the symbol file if any, else the example's."""
    return symbols.signals if symbols is not None else tuple(example)
