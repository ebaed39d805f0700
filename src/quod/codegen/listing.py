"""A kernel three times, side by side: each Python line with the IR and the PTX that it became.

`python -m tools.listing NAME` prints the table that docs/ptx.md shows.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator

from quod.codegen.ptx.emitter import translate
from quod.kernel.ir.nodes import Kernel, Location
from quod.kernel.ir.text import to_text
from quod.kernel.machine import Machine

_LOCATION = re.compile(r'(.*) at "(.*)":(\d+)( \{)?$')


def side_by_side(kernel: Kernel, machine: Machine) -> str:
    """Make a Markdown table of Python, IR and PTX, with one row per Python line that made code."""
    module = translate(kernel, machine)
    rows: dict[Location, tuple[list[str], list[str]]] = {}
    for text, location in _ir_lines(kernel):
        rows.setdefault(location, ([], []))[0].append(text)
    for text, where in zip(module.text.splitlines(), module.lines, strict=True):
        if where is not None and not text.endswith(":"):
            rows.setdefault(where, ([], []))[1].append(text.strip())
    table = ["| Python | IR | PTX |", "|---|---|---|"]
    for location in sorted(rows, key=lambda key: (key.file, key.line)):
        source = linecache.getline(location.file, location.line).strip()
        cells = [_cell([source]), *map(_cell, rows[location])]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table) + "\n"


def _ir_lines(kernel: Kernel) -> Iterator[tuple[str, Location]]:
    """Yield the text and Python line of each op; ops with regions come after their regions."""
    open_ops: list[str] = []
    for line in to_text(kernel, locations=True).splitlines():
        match = _LOCATION.match(line)
        if match is None:
            if line.endswith("{") and not line.lstrip().startswith("}"):
                open_ops.append(line.removesuffix("{").strip())
            continue
        text, location = match.group(1).strip(), Location(match.group(2), int(match.group(3)))
        if text == "}":
            yield open_ops.pop(), location
        elif text != "yield":
            yield text, location


def _cell(lines: list[str]) -> str:
    return "<br>".join(f"`{line}`" for line in lines)
