"""Large JSON as snarkjs lays it out, written a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def write_json_list(file: BinaryIO, name: str, items: Iterator[str]) -> None:
    """Writes a list as one more member of an object that is open, each item as it stands alone."""
    file.write(f',\n "{name}": ['.encode())
    between = "\n  "
    for item in items:
        # An empty object has a line break in it, as in what snarkjs writes.
        text = item.replace("{}", "{\n }").replace("\n", "\n  ")
        file.write((between + text).encode())
        between = ",\n  "
    file.write(b"\n ]")
