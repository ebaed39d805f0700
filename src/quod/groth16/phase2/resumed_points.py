"""Stores of points that an interrupted run has computed or verified, by offset in a section."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.formats.iden3 import Iden3File
from quod.formats.resumable import Parts


def digest_of(circuit: Iden3File, powers: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of a circuit and arrays of powers, which determine an initial key."""
    digest = hashlib.blake2b(circuit.data)
    for name, points in powers.items():
        digest.update(f"{name} {points.shape}\n".encode())
        digest.update(np.ascontiguousarray(points).data)
    return digest.hexdigest()


class PointStore(Protocol):
    """A store of points that an interrupted run has already computed."""

    def find(self, section: int, offset: int, length: int) -> bytes | memoryview | None:
        """Return `length` bytes at byte `offset` of a section, or None if they are not stored."""

    def keep(self, section: int, offset: int, length: int) -> None:
        """Record that bytes of a section were computed and written or compared."""


class EmptyPointStore:
    """The store of a run that cannot be resumed: it is always empty."""

    def find(self, section: int, offset: int, length: int) -> None:
        """Return None."""

    def keep(self, section: int, offset: int, length: int) -> None:
        """Store nothing."""


class FilePointStore:
    """Points in a partially written file; `offsets` has the offset of each section."""

    def __init__(self, parts: Parts, offsets: Mapping[int, int]) -> None:
        self._parts, self._offsets = parts, offsets

    def find(self, section: int, offset: int, length: int) -> bytes | None:
        """Return the bytes of the file if its journal records them."""
        return self._parts.stored(self._offsets[section] + offset, length)

    def keep(self, section: int, offset: int, length: int) -> None:
        """Record the bytes in the journal."""
        self._parts.finish(self._offsets[section] + offset, length)


class KeyPointStore:
    """Points of a key that were verified against its circuit and powers."""

    def __init__(
        self,
        parts: VerifiedParts,
        zkey: Iden3File,
        circuit: Iden3File,
        powers: Mapping[str, NDArray[Any]],
        sections: Container[int],
    ) -> None:
        """powers: the arrays from which points are computed, by name.

        sections: the key's sections that contributions leave unchanged.
        """
        self._parts, self._zkey, self._sections = parts, zkey, sections

        self._inputs = cache(partial(digest_of, circuit, powers))

    def find(self, section: int, offset: int, length: int) -> memoryview | None:
        """Return the key's bytes if they were verified."""
        if section not in self._sections:
            return None
        key_bytes = self._stored_bytes(section, offset, length)
        return (
            key_bytes.data
            if self._parts.is_known(self._description(section, offset), key_bytes)
            else None
        )

    def keep(self, section: int, offset: int, length: int) -> None:
        """Record that the key's bytes equal the computed ones."""
        if section in self._sections:
            self._parts.add(
                self._description(section, offset), self._stored_bytes(section, offset, length)
            )

    def _description(self, section: int, offset: int) -> Any:
        return lambda: f"section {section} from {offset} on of {self._inputs()}"

    def _stored_bytes(self, section: int, offset: int, length: int) -> NDArray[np.uint8]:
        file_offset = self._zkey.sections[section].offset + offset
        return np.frombuffer(self._zkey.data, np.uint8, length, file_offset)
