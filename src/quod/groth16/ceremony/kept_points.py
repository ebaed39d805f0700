"""Points of a new key that an earlier, interrupted run has made, by their place in a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quod.formats.resumable import Parts


class KeptPoints(Protocol):
    """What is asked before points are made, and told when they are where they belong."""

    def find(self, section: int, offset: int, length: int) -> bytes | memoryview | None:
        """Bytes of a section from `offset` in it on, if they are there."""

    def keep(self, section: int, offset: int, length: int) -> None:
        """These bytes were made, and whoever takes them is done with them."""


class NothingKept:
    """Of a run that remembers nothing."""

    def find(self, section: int, offset: int, length: int) -> None:
        """Nothing is there."""

    def keep(self, section: int, offset: int, length: int) -> None:
        """Forgets it."""


class KeptInFile:
    """Points in a file that grows; `places` are where its sections begin."""

    def __init__(self, parts: Parts, places: Mapping[int, int]) -> None:
        self._parts, self._places = parts, places

    def find(self, section: int, offset: int, length: int) -> bytes | None:
        """The bytes of the file, if its journal has them."""
        return self._parts.found(self._places[section] + offset, length)

    def keep(self, section: int, offset: int, length: int) -> None:
        """Has the journal told of them."""
        self._parts.finish(self._places[section] + offset, length)
