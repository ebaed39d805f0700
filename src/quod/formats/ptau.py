"""Powers of tau (`.ptau`) of snarkjs: the result of the first phase of a ceremony.

| section | holds |
|---|---|
| 1 | q after its length; u32 power n, u32 power of the ceremony's complete file |
| 2 | tau_g1: 2**(n + 1) - 1 points, tau**i in G1 from the generator on |
| 3 | tau_g2: 2**n points, tau**i in G2 |
| 4, 5 | alpha_tau_g1, beta_tau_g1: 2**n points each, alpha * tau**i and beta * tau**i in G1 |
| 6 | beta_g2 |
| 7 | the contributions |
| 12 to 15 | sections 2 to 5 in Lagrange bases, in a file that is prepared for the second phase |

Points are affine, coordinates in Montgomery form with R = 2**(32 * words), as in a zkey.
"""

from __future__ import annotations

from typing import NoReturn

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.formats.curves import supported_curves
from quod.formats.iden3 import Iden3File, SectionReader, Words
from quod.formats.source import Path
from quod.frozen import frozen

KIND = "ptau"
VERSION = 1
_LAGRANGE = {12, 13, 14, 15}


@frozen
class PtauHeader:
    """The contents of section 1.

    curve: The curve.
    power: log2 of the number of powers in the file.
    ceremony_power: log2 of the number of powers of the ceremony.
    """

    curve: PairingCurve
    power: int
    ceremony_power: int


@frozen(eq=False)
class PowersOfTau:
    """An open file of powers of tau; all arrays are read-only views of the mapped file.

    With `words` 32-bit words per Fq element, points have the shape (2, words) in G1 and (2, 2,
    words) in G2; arrays of points have one more leading axis. Points are not validated here:
    callers must check that they are on the curve, in the subgroup and consistent powers. `size` is
    the length of the file in bytes.
    """

    path: str
    curve: str
    power: int
    ceremony_power: int
    tau_g1: Words
    tau_g2: Words
    alpha_tau_g1: Words
    beta_tau_g1: Words
    beta_g2: Words
    prepared: bool
    size: int
    file: Iden3File
    _locations: dict[str, tuple[str, int]]

    @classmethod
    def open(cls, path: Path) -> PowersOfTau:
        """Map a file and check its header and the length of every section of points.

        Raises `InputError` for a damaged container, a curve that is not known, more powers than
        the field has roots of unity, and sections that are not as long as the header says.
        """
        return cls.of(Iden3File.open(path, KIND, VERSION))

    @classmethod
    def of(cls, file: Iden3File) -> PowersOfTau:
        """Read an open container as `open` reads a file."""
        header = read_ptau_header(file)
        words, count = header.curve.fq.words, 1 << header.power
        locations: dict[str, tuple[str, int]] = {}
        arrays: dict[str, Words] = {}
        for identifier, name, shape in (
            (2, "tau_g1", (2 * count - 1, 2, words)),
            (3, "tau_g2", (count, 2, 2, words)),
            (4, "alpha_tau_g1", (count, 2, words)),
            (5, "beta_tau_g1", (count, 2, words)),
            (6, "beta_g2", (2, 2, words)),
        ):
            section = file.section(identifier, name)
            locations[name] = (section.label, section.offset)
            arrays[name] = section.words(*shape, what=name)
            section.finish()
        return cls(
            path=file.path,
            curve=header.curve.name,
            power=header.power,
            ceremony_power=header.ceremony_power,
            prepared=is_prepared(file),
            size=file.size,
            file=file,
            _locations=locations,
            **arrays,
        )

    @property
    def curve_parameters(self) -> PairingCurve:
        """The parameters of the curve."""
        return CURVES[self.curve]

    def contributions_section(self) -> SectionReader:
        """Return a reader of section 7."""
        return self.file.section(7, "contributions")

    def refuse(self, name: str, number: int, why: str) -> NoReturn:
        """Raise the `InputError` about a point of an array."""
        section, start = self._locations[name]
        raise InputError(
            f"point {number} of {name} {why}; the file is damaged or forged, get it again from "
            "its source",
            path=self.path,
            section=section,
            offset=start + number * getattr(self, name)[0].nbytes,
        )


def is_prepared(file: Iden3File) -> bool:
    """Return true if a file has a Lagrange section, which the second phase of a ceremony needs."""
    return not _LAGRANGE.isdisjoint(file.sections)


def read_ptau_header(file: Iden3File) -> PtauHeader:
    """Read section 1; raise `InputError` for an unknown curve, and for powers out of its range."""
    section = file.section(1, "header")
    start = section.offset
    curve = _read_curve(section)
    if section.offset - start != 4 + curve.fq.bytes:
        section.fail(
            f"q of {curve.name} takes {curve.fq.bytes} bytes, not {section.offset - start - 4}; "
            "make the file again",
            start,
        )
    start = section.offset
    power = section.u32("the power")
    ceremony_power = section.u32("the power of the ceremony")
    section.finish()
    if not 1 <= power <= ceremony_power <= curve.fr.two_adicity:
        section.fail(
            f"2**{power} powers of a ceremony of 2**{ceremony_power} do not exist for "
            f"{curve.name}, which has 2 to 2**{curve.fr.two_adicity}; the file is "
            "damaged, copy it again",
            start,
        )
    return PtauHeader(curve, power, ceremony_power)


def _read_curve(section: SectionReader) -> PairingCurve:
    start = section.offset
    q = section.modulus("q")
    curve = next((curve for curve in CURVES.values() if curve.fq.value == q), None)
    if curve is None:
        section.fail(
            f"q = 0x{q:x} is not the prime of a supported curve ({supported_curves()})", start
        )
    return curve
