"""Large JSON in the layout of snarkjs, written piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def write_json_list(file: BinaryIO, name: str, items: Iterator[str]) -> None:
    """Write a list as the next member of an open object; each item is a complete JSON text."""
    file.write(f',\n "{name}": ['.encode())
    between = "\n  "
    for item in items:
        # snarkjs writes a line break into an empty object.
        text = item.replace("{}", "{\n }").replace("\n", "\n  ")
        file.write((between + text).encode())
        between = ",\n  "
    file.write(b"\n ]")
