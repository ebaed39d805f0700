"""Large JSON in the layout of snarkjs, written one list item at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def write_json_list(file: BinaryIO, name: str, items: Iterator[str]) -> None:
    """Write a list as the next member of an open object; each item is a complete JSON text."""
    file.write(f',\n "{name}": ['.encode())
    separator = "\n  "
    for item in items:
        # snarkjs writes a line break into an empty object.
        text = item.replace("{}", "{\n }").replace("\n", "\n  ")
        file.write((separator + text).encode())
        separator = ",\n  "
    file.write(b"\n ]")
