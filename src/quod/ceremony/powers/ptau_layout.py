"""The sections of points of a file of powers of tau, and a writer of whole files."""

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
        """The number of points for 2**power powers."""
        return 1 if self.single else (2 << power) - 1 if self.twice else 1 << power

    def group(self, curve: PairingCurve) -> Group:
        """G1 or G2."""
        return group_of(curve, self.degree)

    def nbytes(self, curve: PairingCurve, power: int) -> int:
        """The bytes of the section."""
        return self.count(power) * 8 * self.group(curve).point_words

    def points(self, file: PowersOfTau) -> Words:
        """The points of a file, as an array."""
        array: Words = getattr(file, self.name)
        return array[None] if self.single else array

    def checked(
        self, device: AnyDevice, file: PowersOfTau, first: int, last: int, *, subgroup: bool = True
    ) -> Words:
        """A copy of points `first` to before `last` of a file, after a look at each of them.

        Raises InputError for one that is infinity or off the curve or, with `subgroup`, outside the
        subgroup of prime order: of small order, it would come back with what a secret is modulo
        that order.
        """
        points = np.array(self.points(file)[first:last])
        bad = first_bad_point(
            device, self.group(file.curve_parameters), points, subgroup=subgroup, infinity=False
        )
        if bad is not None:
            file.refuse(self.name, first + bad[0], bad[1])
        return points


SECTIONS = (
    PointSection(2, "tau_g1", 1, twice=True),
    PointSection(3, "tau_g2", 2),
    PointSection(4, "alpha_tau_g1", 1, "alpha"),
    PointSection(5, "beta_tau_g1", 1, "beta"),
    PointSection(6, "beta_g2", 2, "beta", single=True),
)
CONTRIBUTIONS = 7

# Bytes that are copied at a time.
_PIECE = 1 << 24


@frozen
class LagrangeSection:
    """The points of a section in Lagrange bases, a level after the other from that of one point.

    Level n has the 2**n points L_i(tau), L_i of degree below 2**n. Powers in twice the number have
    a level more.
    """

    id: int
    of: PointSection

    def levels(self, power: int) -> int:
        """The largest level."""
        return power + 1 if self.of.twice else power

    def count(self, power: int) -> int:
        """Points of all levels."""
        return (2 << self.levels(power)) - 1

    def nbytes(self, curve: PairingCurve, power: int) -> int:
        """The bytes of the section."""
        return self.count(power) * 8 * self.of.group(curve).point_words

    @property
    def name(self) -> str:
        """The section's name in errors."""
        return f"Lagrange points of {self.of.name}"

    def points(self, file: PowersOfTau) -> tuple[SectionReader, Words]:
        """The points of a file, of all levels, and the section at its start. InputError for a
        section of another length."""
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
    """A power that the curve has; InputError otherwise."""
    return whole_number("the power", power, 1, curve.fr.two_adicity)


def header_data(curve: PairingCurve, power: int, ceremony_power: int) -> bytes:
    """Section 1."""
    size = curve.fq.bytes
    q = curve.fq.value.to_bytes(size, "little")
    return little_u32(size) + q + little_u32(power) + little_u32(ceremony_power)


class PtauWriter:
    """Writes a file front to back, whose parts can be read again before it is whole."""

    def __init__(self, file: BinaryIO, curve: PairingCurve, sections: int) -> None:
        """`sections` is how many there will be.

        Raises OutputError for what cannot be read again or be written at any place: pipes, devices,
        and descriptors that are not open for that.
        """
        kind = os.fstat(file.fileno()).st_mode
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        if not stat.S_ISREG(kind) or flags & (os.O_ACCMODE | os.O_APPEND) != os.O_RDWR:
            raise OutputError(
                "powers of tau are read back while they are written; name a regular file"
            )
        self._file = file
        self._curve = curve
        self._places: dict[int, int] = {}
        file.write(container_start(KIND, VERSION, sections))

    def section(self, identifier: int, data: bytes) -> None:
        """A section whose bytes are there."""
        self.begin(identifier, len(data))
        self._file.write(data)

    def begin(self, identifier: int, nbytes: int) -> None:
        """Begins a section of so many bytes, which `write` brings."""
        self._file.write(section_start(identifier, nbytes))
        self._places[identifier] = self._file.tell()

    def write(self, data: Buffer) -> None:
        """The next bytes of a section."""
        self._file.write(as_bytes(data))

    def reserve(self, identifier: int, nbytes: int) -> None:
        """A section of so many bytes, which `write_at` brings in any order, all of them."""
        self.begin(identifier, nbytes)
        self._file.seek(nbytes, os.SEEK_CUR)

    def place(self, identifier: int, offset: int) -> int:
        """The file offset of the byte at `offset` in a section."""
        return self._places[identifier] + offset

    def write_at(self, identifier: int, offset: int, data: Buffer) -> None:
        """The bytes of a reserved section, from `offset` in it on."""
        end = self._file.tell()
        self._file.seek(self.place(identifier, offset))
        self._file.write(as_bytes(data))
        self._file.seek(end)

    def copy(self, file: PowersOfTau, identifier: int, length: int | None = None) -> None:
        """A section as another file has it, its first `length` bytes if that is given."""
        contents = file.file.section(identifier, "").rest()[:length]
        self.begin(identifier, len(contents))
        for at in range(0, len(contents), _PIECE):
            self._file.write(contents[at : at + _PIECE])

    def written(self, section: PointSection, power: int) -> Iterator[Words]:
        """The points of a section that is written, a window at a time, as views of the file."""
        self._file.flush()
        group = section.group(self._curve)
        size, start = 8 * group.point_words, self._places[section.id]
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for first, last in windows(group, section.count(power)):
                raw = data[start + first * size : start + last * size]
                yield np.frombuffer(raw, "<u4").reshape(last - first, *group.shape)


def check_not_truncated(file: PowersOfTau) -> None:
    """InputError for a file that was cut from a larger ceremony: its challenge is not known."""
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
        place = 0 if section.first else 1
        values += to_points(section.group(curve), beginning(section)[place : place + 1])
    return Results(*values)
