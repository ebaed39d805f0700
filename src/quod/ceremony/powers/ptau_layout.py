"""The sections of points in a file of powers of tau, and a writer of such files."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from quod.ceremony.powers.contribution import Results
from quod.ceremony.public_key import group_of
from quod.ceremony.windows import windows
from quod.curve.array import to_points
from quod.curve.group import Group
from quod.curve.parameters import PairingCurve
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.protocol import AnyDevice
from quod.errors import InputError, OutputError
from quod.field.array import Words
from quod.formats.iden3 import (
    Buffer,
    SectionReader,
    as_bytes,
    container_start,
    little_u32,
    section_start,
)
from quod.formats.ptau import KIND, VERSION, PowersOfTau
from quod.frozen import frozen
from quod.validation import whole_number


@frozen
class PointSection:
    """A section of points first * tau**i of one group.

    first: the name of a secret, or empty for 1.
    twice: whether there are 2**(power + 1) - 1 points instead of 2**power.
    single: whether there is one point.
    """

    id: int
    name: str
    degree: int
    first: str = ""
    twice: bool = False
    single: bool = False

    def count(self, power: int) -> int:
        """Return the number of points for 2**power powers."""
        return 1 if self.single else (2 << power) - 1 if self.twice else 1 << power

    def group(self, curve: PairingCurve) -> Group:
        """Return the group of the points."""
        return group_of(curve, self.degree)

    def nbytes(self, curve: PairingCurve, power: int) -> int:
        """Return the bytes of the section."""
        return self.count(power) * 8 * self.group(curve).point_words

    def points(self, file: PowersOfTau) -> Words:
        """Return the section's points in a file, as an array of affine points."""
        array: Words = getattr(file, self.name)
        return array[None] if self.single else array

    def checked(
        self, device: AnyDevice, file: PowersOfTau, first: int, last: int, *, subgroup: bool = True
    ) -> Words:
        """Return a copy of points `first` to `last` - 1 of a file, after checking each of them.

        Raises InputError for a point that is infinity, off the curve or, with `subgroup`, outside
        the subgroup of prime order. A point of small order, times a secret, would reveal the secret
        modulo that order.
        """
        points = np.array(self.points(file)[first:last])
        bad_point = first_bad_point(
            device, self.group(file.curve_parameters), points, subgroup=subgroup, infinity=False
        )
        if bad_point is not None:
            file.refuse(self.name, first + bad_point[0], bad_point[1])
        return points


SECTIONS = (
    PointSection(2, "tau_g1", 1, twice=True),
    PointSection(3, "tau_g2", 2),
    PointSection(4, "alpha_tau_g1", 1, "alpha"),
    PointSection(5, "beta_tau_g1", 1, "beta"),
    PointSection(6, "beta_g2", 2, "beta", single=True),
)
CONTRIBUTIONS = 7

# The number of bytes that are copied at a time.
_CHUNK_BYTES = 1 << 24


@frozen
class LagrangeSection:
    """A section with the Lagrange bases of a section of powers, level after level.

    Level n, from 0 on, has the 2**n points L_i(tau) of the domain of size 2**n. The bases of a
    section with `twice` have one more level.
    """

    id: int
    of: PointSection

    def levels(self, power: int) -> int:
        """Return the largest level."""
        return power + 1 if self.of.twice else power

    def count(self, power: int) -> int:
        """Return the number of points of all levels."""
        return (2 << self.levels(power)) - 1

    def nbytes(self, curve: PairingCurve, power: int) -> int:
        """Return the bytes of the section."""
        return self.count(power) * 8 * self.of.group(curve).point_words

    @property
    def name(self) -> str:
        """The section's name in error messages."""
        return f"Lagrange points of {self.of.name}"

    def points(self, file: PowersOfTau) -> tuple[SectionReader, Words]:
        """Return the section at its start, and the points of all levels.

        Raises InputError for a section of another length.
        """
        section = file.file.section(self.id, self.name)
        shape = self.of.group(file.curve_parameters).shape
        points: Words = section.words(self.count(file.power), *shape, what=self.name)
        section.finish()
        return file.file.section(self.id, self.name), points


LAGRANGE = tuple(
    LagrangeSection(12 + number, section)
    for number, section in enumerate(section for section in SECTIONS if not section.single)
)


def check_power(curve: PairingCurve, power: object) -> int:
    """Return the power; raise InputError unless the curve has roots of unity for it."""
    return whole_number("the power", power, 1, curve.fr.two_adicity)


def header_data(curve: PairingCurve, power: int, ceremony_power: int) -> bytes:
    """Return the contents of section 1."""
    size = curve.fq.bytes
    q = curve.fq.value.to_bytes(size, "little")
    return little_u32(size) + q + little_u32(power) + little_u32(ceremony_power)


class PtauWriter:
    """A writer of a file of powers; complete sections can be read before the file is complete."""

    def __init__(self, file: BinaryIO, curve: PairingCurve, sections: int) -> None:
        """Begin a file.

        sections: the number of sections.
        Raises OutputError unless `file` is a regular file that is open for reading and writing.
        """
        kind = os.fstat(file.fileno()).st_mode
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        if not stat.S_ISREG(kind) or flags & (os.O_ACCMODE | os.O_APPEND) != os.O_RDWR:
            raise OutputError(
                "powers of tau are read back while they are written; name a regular file"
            )
        self._file = file
        self._curve = curve
        self._offsets: dict[int, int] = {}
        file.write(container_start(KIND, VERSION, sections))

    def section(self, identifier: int, data: bytes) -> None:
        """Write a whole section."""
        self.begin(identifier, len(data))
        self._file.write(data)

    def begin(self, identifier: int, nbytes: int) -> None:
        """Begin a section of `nbytes` bytes, which calls of `write` must supply."""
        self._file.write(section_start(identifier, nbytes))
        self._offsets[identifier] = self._file.tell()

    def write(self, data: Buffer) -> None:
        """Write the next bytes of the section."""
        self._file.write(as_bytes(data))

    def reserve(self, identifier: int, nbytes: int) -> None:
        """Reserve a section of `nbytes` bytes, all of which `write_at` must write, in any order."""
        self.begin(identifier, nbytes)
        self._file.seek(nbytes, os.SEEK_CUR)

    def file_offset(self, identifier: int, offset: int) -> int:
        """Return the file offset of byte `offset` of a section."""
        return self._offsets[identifier] + offset

    def write_at(self, identifier: int, offset: int, data: Buffer) -> None:
        """Write bytes of a reserved section, from byte `offset` of it on."""
        end = self._file.tell()
        self._file.seek(self.file_offset(identifier, offset))
        self._file.write(as_bytes(data))
        self._file.seek(end)

    def copy(self, file: PowersOfTau, identifier: int, length: int | None = None) -> None:
        """Copy a section of another file, or its first `length` bytes."""
        contents = file.file.section(identifier, "").rest()[:length]
        self.begin(identifier, len(contents))
        for start in range(0, len(contents), _CHUNK_BYTES):
            self._file.write(contents[start : start + _CHUNK_BYTES])

    def written(self, section: PointSection, power: int) -> Iterator[Words]:
        """Yield the points of a complete section in windows, read from the file."""
        self._file.flush()
        group = section.group(self._curve)
        size, start = 8 * group.point_words, self._offsets[section.id]
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for first, end in windows(group, section.count(power)):
                window_bytes = data[start + first * size : start + end * size]
                yield np.frombuffer(window_bytes, "<u4").reshape(end - first, *group.shape)


def check_not_truncated(file: PowersOfTau) -> None:
    """Raise InputError for a file that was truncated, as its challenge is unknown."""
    if file.power != file.ceremony_power:
        raise InputError(
            f"has 2**{file.power} of the 2**{file.ceremony_power} powers of its "
            "ceremony, and a contribution needs all of them; use the file that it was "
            "truncated from",
            path=file.path,
        )


def results_of(beginning: Callable[[PointSection], Words], curve: PairingCurve) -> Results:
    """Return the points that determine the powers, from the `beginning` of each section.

    These are the second point of sections that begin with the generator, else the first point.
    """
    values: list[Any] = []
    for section in SECTIONS:
        index = 0 if section.first else 1
        values += to_points(section.group(curve), beginning(section)[index : index + 1])
    return Results(*values)
