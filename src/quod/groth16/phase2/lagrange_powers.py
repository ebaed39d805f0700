"""The Lagrange bases of one domain, which a set-up reads from prepared powers of tau."""

from __future__ import annotations

import numpy as np

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.infinity import infinite_points
from quod.curve.named import CURVES
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words
from quod.formats.iden3 import SectionReader
from quod.formats.ptau import PowersOfTau
from quod.frozen import frozen

_SECTIONS = {"tau_g1": 12, "tau_g2": 13, "alpha_tau_g1": 14, "beta_tau_g1": 15}

# Points that are checked at a time.
_CHUNK = 1 << 16


@frozen(eq=False)
class LagrangePowers:
    """Views of the mapped file; L_i are the Lagrange polynomials of a domain of 2**`power`.

    L_i(tau) in G1 and G2, alpha and beta times them in G1, and `h`, those of twice the domain at
    its odd places, which snarkjs's keys have as the points of the quotient.
    """

    ptau: PowersOfTau
    power: int
    tau_g1: Words
    tau_g2: Words
    alpha_tau_g1: Words
    beta_tau_g1: Words
    h: Words

    @classmethod
    def open(cls, ptau: PowersOfTau, power: int, circuit: str) -> LagrangePowers:
        """InputError unless the powers are prepared, whole, and enough for `power`."""
        if power > ptau.power:
            raise InputError(
                f"has 2**{ptau.power} powers and {circuit} needs 2**{power}; use a "
                "larger file of powers of tau",
                path=ptau.path,
            )
        if not ptau.prepared:
            raise InputError(
                "is not prepared for the second phase; run `quod powersoftau prepare` on it first",
                path=ptau.path,
            )
        levels = {name: _level(ptau, name, power) for name in _SECTIONS}
        twice = _level(ptau, "tau_g1", power + 1)
        # Twice the largest domain of the field is none: snarkjs has the odd places in its half.
        largest = CURVES[ptau.curve].fr.two_adicity
        h = twice[1 << power :] if power == largest else twice[1::2]
        return cls(ptau, power, h=h, **levels)

    def check(self, device: AnyDevice) -> None:
        """InputError unless every point that a key is made of is on its curve and not infinity.

        Among the powers themselves, a key takes alpha and beta. The points that the circuit hash
        covers must not be infinity either.
        """
        infinite = infinite_points(self.ptau.tau_g1[: 2 << self.power])
        if len(infinite):
            self.ptau.refuse("tau_g1", int(infinite[0]), "is the point at infinity")
        for name in ("alpha_tau_g1", "beta_tau_g1", "beta_g2"):
            group = self.group(2 if name == "beta_g2" else 1)
            points: Words = getattr(self.ptau, name).reshape(-1, *group.shape)
            if bad := _first_bad_point(device, group, points[:1]):
                self.ptau.refuse(name, *bad)
        for name, points in self.arrays().items():
            group = self.group(2 if name == "tau_g2" else 1)
            if bad := _first_bad_point(device, group, points):
                section = _section(self.ptau, "tau_g1" if name == "h" else name)
                raise InputError(
                    f"point {bad[0]} of the Lagrange basis {name} of 2**{self.power} {bad[1]}; the "
                    "file is incomplete or damaged, or nobody contributed to its powers: get it "
                    "again from its source and check it with quod powersoftau verify",
                    path=self.ptau.path,
                    section=section.label,
                    offset=section.offset + self._place(name, bad[0]) * 8 * group.point_words,
                )

    def _place(self, name: str, index: int) -> int:
        """The index that a point of an array has in its section."""
        if name != "h":
            return (1 << self.power) - 1 + index
        in_level = (1 << self.power) + index if self._is_largest else 2 * index + 1
        return (2 << self.power) - 1 + in_level

    @property
    def _is_largest(self) -> bool:
        return self.power == CURVES[self.ptau.curve].fr.two_adicity

    def arrays(self) -> dict[str, Words]:
        """All of them by name."""
        return {name: getattr(self, name) for name in (*_SECTIONS, "h")}

    def group(self, degree: int) -> Group:
        """G1 or G2."""
        return GROUPS[f"{self.ptau.curve}.g{degree}"]


def _first_bad_point(device: AnyDevice, group: Group, points: Words) -> tuple[int, str] | None:
    """The first point that is off its curve or infinity, and the reason; works in chunks."""
    for start in range(0, len(points), _CHUNK):
        part = np.ascontiguousarray(points[start : start + _CHUNK])
        bad = first_bad_point(device, group, part, subgroup=False, infinity=False)
        if bad is not None:
            return start + bad[0], bad[1]
    return None


def _section(ptau: PowersOfTau, name: str) -> SectionReader:
    """The section of the Lagrange basis of an array."""
    return ptau.file.section(_SECTIONS[name], f"{name} in Lagrange bases")


def _level(ptau: PowersOfTau, name: str, power: int) -> Words:
    """The Lagrange basis of 2**power of a section, which has all of them one after the other."""
    section = _section(ptau, name)
    levels = ptau.power + (2 if name == "tau_g1" else 1)
    shape = GROUPS[f"{ptau.curve}.g{2 if name == 'tau_g2' else 1}"].shape
    count = (1 << levels) - 1
    if section.remaining != 4 * count * int(np.prod(shape)):
        section.fail(
            f"{section.remaining} bytes are not the {count} points of 2**0 to 2**{levels - 1}; "
            "the file is truncated or damaged, prepare the powers again"
        )
    points = section.words(count, *shape, what=name)
    return points[(1 << power) - 1 : (2 << power) - 1]
