"""The input signals of a circuit, as far as a form needs them.

circom's witness calculator knows inputs by the hashes of their names alone. The names come from
the symbols that circom writes (``--sym``) or from an example of an input. Symbols do not say which
signals are inputs: the page asks the calculator, which knows the sizes of its inputs and of nothing
else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from quod.errors import InputError
from quod.formats.snarkjs_json import load_json

_MAIN = "main."
_INDEXED = re.compile(r"^(?P<name>.*?)(?P<indices>(\[\d+\])*)$")


@dataclass(frozen=True)
class Signal:
    """A signal of the main component: `dims` is empty for one number, else the sizes of its lists.

    `public` is None where it is not known.
    """

    name: str
    dims: tuple[int, ...]
    public: bool | None = None

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"name": self.name, "dims": list(self.dims)}
        return row if self.public is None else row | {"public": self.public}


@dataclass(frozen=True)
class Symbols:
    """Signals that may be inputs, in their order, and the names of the public signals."""

    signals: tuple[Signal, ...]
    publics: tuple[str, ...]


def _read_text(path: str | PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not text", path=path, offset=error.start) from error


def read_symbols(path: str | PathLike[str], public: int) -> Symbols:
    """The signals of the main component in a .sym file of circom, for a key with so many publics.

    A line has the number of a signal, its place in the witness or -1, its component and its name.
    `InputError` for a file that is none.
    """
    dims: dict[str, list[int]] = {}
    publics: dict[int, str] = {}
    main: str | None = None
    for number, line in enumerate(_read_text(path).splitlines(), 1):
        parts = line.split(",", 3)
        if len(parts) != 4 or not parts[3].startswith(_MAIN) or not _is_integer(parts[1]):
            raise InputError(f"line {number} is no line of a .sym file of circom", path=path)
        main = main or parts[2]
        if parts[2] != main:
            continue
        full = parts[3][len(_MAIN) :]
        match = _INDEXED.match(full)
        assert match is not None
        indices = [int(index) for index in re.findall(r"\d+", match["indices"])]
        sizes = dims.setdefault(match["name"], [0] * len(indices))
        for axis, index in enumerate(indices[: len(sizes)]):
            sizes[axis] = max(sizes[axis], index + 1)
        place = int(parts[1])
        if 1 <= place <= public:
            publics[place] = full
    shown = {_INDEXED.match(name)["name"] for name in publics.values()}  # type: ignore[index]
    return Symbols(
        tuple(Signal(name, tuple(sizes), name in shown) for name, sizes in dims.items()),
        tuple(publics.get(place, "") for place in range(1, public + 1)),
    )


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def read_example(path: str | PathLike[str]) -> tuple[dict[str, Any], tuple[Signal, ...]]:
    """An input of a circuit, and the signals that it has; `InputError` for a file that is none.

    Numbers become text, so that JavaScript reads them exactly.
    """
    document = load_json(Path(path), integer=str)
    if not isinstance(document, dict):
        raise InputError('is no input of a circuit: {"signal": value, ...}', path=path)
    signals = [
        Signal(name, sizes)
        for name, value in document.items()
        if (sizes := _dims(value)) is not None
    ]
    return document, tuple(signals)


def _dims(value: Any) -> tuple[int, ...] | None:
    """The sizes of lists within lists; None where they differ or hold something else."""
    if isinstance(value, (str, int)):
        return ()
    if not isinstance(value, list) or not value:
        return None
    rest = {_dims(item) for item in value}
    only = rest.pop()
    return None if rest or only is None else (len(value), *only)


def merged(symbols: Symbols | None, example: Sequence[Signal]) -> tuple[Signal, ...]:
    """What the form offers: by the symbols where there are any, else by the example."""
    return symbols.signals if symbols is not None else tuple(example)
