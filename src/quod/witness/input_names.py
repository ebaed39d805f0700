"""The names of a circuit's inputs, for errors: a calculator knows only their hashes."""

from __future__ import annotations

import os
import re

from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.sym import symbol_rows

# The signals of the main component come first in the file.
_MAX_BYTES = 1 << 20
_INDICES = re.compile(r"(?:\[[0-9]+\])+\Z")
_MAIN = "main."


def symbols_beside(wasm: Path) -> str | None:
    """Return the .sym file that circom wrote with a calculator, or None if it is missing.

    circom writes ``c.sym`` next to ``c_js/c.wasm``; both may also be in one folder.
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(wasm)))
    stem = os.path.splitext(name)[0]
    folders = [folder]
    if os.path.basename(folder) == f"{stem}_js":
        folders.append(os.path.dirname(folder))
    paths = [os.path.join(parent, f"{stem}.sym") for parent in folders]
    return next((path for path in paths if os.path.isfile(path)), None)


def names_of_main(symbols: Path | None) -> list[str]:
    """Return the names of the main component's signals, without indices, in file order.

    Outputs and intermediate signals are included. The list is empty for None and for a file without
    readable symbols: errors then have no names.
    """
    if symbols is None:
        return []
    names: dict[str, None] = {}
    component = None
    try:
        with open(symbols, "rb") as file:
            data = file.read(_MAX_BYTES)
        for row in symbol_rows(data[: data.rfind(b"\n") + 1], os.fspath(symbols)):
            component = component or row.component
            if row.component != component:
                break
            if row.name.startswith(_MAIN):
                names[_INDICES.sub("", row.name.removeprefix(_MAIN))] = None
    except (OSError, InputError):
        return []
    return list(names)
