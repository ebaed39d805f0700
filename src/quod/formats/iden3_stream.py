"""Containers of the iden3 tools whose sections are generated while they are written.

A file may then be larger than memory: the length of each section is known in advance, and the
bytes of a section are generated in parts. `quod.formats.iden3` has the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from quod.formats.iden3 import Buffer, as_bytes, container_start, section_start
from quod.frozen import frozen


@frozen(eq=False)
class PlannedSection:
    """A section of `length` bytes, generated part by part when it is written."""

    identifier: int
    length: int
    parts: Callable[[], Iterator[Buffer]]

    @classmethod
    def of(cls, identifier: int, *parts: Buffer) -> PlannedSection:
        """Return a section of parts that are already in memory."""
        return cls(identifier, sum(len(as_bytes(part)) for part in parts), lambda: iter(parts))


def places(kind: str, version: int, sections: Sequence[PlannedSection]) -> dict[int, int]:
    """Return the offset of each section's contents in the file, by section number."""
    offset, offsets = len(container_start(kind, version, len(sections))), {}
    for section in sections:
        offset += len(section_start(section.identifier, section.length))
        offsets[section.identifier] = offset
        offset += section.length
    return offsets


def write_planned(
    file: BinaryIO, kind: str, version: int, sections: Sequence[PlannedSection]
) -> None:
    """Write a container to an open file, with its sections in order.

    Raises ValueError, a defect of the caller, if a section's parts are shorter than planned.
    """
    file.write(container_start(kind, version, len(sections)))
    for section in sections:
        file.write(section_start(section.identifier, section.length))
        missing_bytes = section.length
        for part in section.parts():
            data = as_bytes(part)
            missing_bytes -= len(data)
            file.write(data)
        if missing_bytes:
            raise ValueError(
                f"section {section.identifier} is {missing_bytes} bytes short of its plan"
            )
