"""Containers of the iden3 tools whose sections are made while they are written.

So a file may be larger than memory: the length of each section is known beforehand, its bytes come
in parts. `quod.formats.iden3` has the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from quod.formats.iden3 import Buffer, as_bytes, container_start, section_start
from quod.frozen import frozen


@frozen(eq=False)
class PlannedSection:
    """A section of `length` bytes, whose parts come in turn when it is their turn."""

    identifier: int
    length: int
    parts: Callable[[], Iterator[Buffer]]

    @classmethod
    def of(cls, identifier: int, *parts: Buffer) -> PlannedSection:
        """Of parts that are there."""
        return cls(identifier, sum(len(as_bytes(part)) for part in parts), lambda: iter(parts))


def places(kind: str, version: int, sections: Sequence[PlannedSection]) -> dict[int, int]:
    """Where in the file each section's bytes will begin, by its number."""
    at, found = len(container_start(kind, version, len(sections))), {}
    for section in sections:
        at += len(section_start(section.identifier, section.length))
        found[section.identifier] = at
        at += section.length
    return found


def write_planned(
    file: BinaryIO, kind: str, version: int, sections: Sequence[PlannedSection]
) -> None:
    """Writes a container to an open file, its sections in their order.

    A section whose parts are not as long as planned is a defect of whoever planned it: ValueError.
    """
    file.write(container_start(kind, version, len(sections)))
    for section in sections:
        file.write(section_start(section.identifier, section.length))
        left = section.length
        for part in section.parts():
            data = as_bytes(part)
            left -= len(data)
            file.write(data)
        if left:
            raise ValueError(f"section {section.identifier} is {left} bytes short of its plan")
