"""The Lagrange bases of one domain, which key generation reads from prepared powers of tau."""

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

# The number of points that are checked at a time.
_CHUNK = 1 << 16


@frozen(eq=False)
class LagrangePowers:
    """Lagrange bases as views of a mapped file; L_i are the polynomials of a domain of 2**`power`.

    tau_g1, tau_g2: L_i(tau) in G1 and G2.
    alpha_tau_g1, beta_tau_g1: alpha * L_i(tau) and beta * L_i(tau) in G1.
    h: the points with odd index in the basis of twice the domain, which are the points of h in
        snarkjs's initial keys.
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
        """Return the bases; raise InputError if the powers are unprepared, truncated or too few.

        circuit: the name of the circuit in messages.
        """
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
        double_basis = _level(ptau, "tau_g1", power + 1)
        # The field has no domain twice the largest one. There, snarkjs stores the points with odd
        # index in the second half.
        largest = CURVES[ptau.curve].fr.two_adicity
        h = double_basis[1 << power :] if power == largest else double_basis[1::2]
        return cls(ptau, power, h=h, **levels)

    def check(self, device: AnyDevice) -> None:
        """Raise InputError unless the points of a key are on their curves and not infinity.

        These are the Lagrange bases, alpha and beta. The powers that the circuit hash covers must
        not be infinity either.
        """
        infinite = infinite_points(self.ptau.tau_g1[: 2 << self.power])
        if len(infinite):
            self.ptau.refuse("tau_g1", int(infinite[0]), "is the point at infinity")
        for name in ("alpha_tau_g1", "beta_tau_g1", "beta_g2"):
            group = self.group(2 if name == "beta_g2" else 1)
            points: Words = getattr(self.ptau, name).reshape(-1, *group.shape)
            if bad_point := _first_bad_point(device, group, points[:1]):
                self.ptau.refuse(name, *bad_point)
        for name, points in self.arrays().items():
            group = self.group(2 if name == "tau_g2" else 1)
            if bad_point := _first_bad_point(device, group, points):
                section = _section(self.ptau, "tau_g1" if name == "h" else name)
                raise InputError(
                    f"point {bad_point[0]} of the Lagrange basis {name} of 2**{self.power} "
                    f"{bad_point[1]}; the file is incomplete or damaged, or nobody contributed to "
                    "its powers: get it again from its source and check it with "
                    "quod powersoftau verify",
                    path=self.ptau.path,
                    section=section.label,
                    offset=section.offset
                    + self._section_index(name, bad_point[0]) * 8 * group.point_words,
                )

    def _section_index(self, name: str, index: int) -> int:
        """Return the index in the section of a point of an array."""
        if name != "h":
            return (1 << self.power) - 1 + index
        in_level = (1 << self.power) + index if self._is_largest else 2 * index + 1
        return (2 << self.power) - 1 + in_level

    @property
    def _is_largest(self) -> bool:
        return self.power == CURVES[self.ptau.curve].fr.two_adicity

    def arrays(self) -> dict[str, Words]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in (*_SECTIONS, "h")}

    def group(self, degree: int) -> Group:
        """Return G1 or G2."""
        return GROUPS[f"{self.ptau.curve}.g{degree}"]


def _first_bad_point(device: AnyDevice, group: Group, points: Words) -> tuple[int, str] | None:
    """Return the index and fault of the first point off the curve or at infinity, or None."""
    for start in range(0, len(points), _CHUNK):
        chunk = np.ascontiguousarray(points[start : start + _CHUNK])
        bad_point = first_bad_point(device, group, chunk, subgroup=False, infinity=False)
        if bad_point is not None:
            return start + bad_point[0], bad_point[1]
    return None


def _section(ptau: PowersOfTau, name: str) -> SectionReader:
    """Return the section with the Lagrange bases of an array."""
    return ptau.file.section(_SECTIONS[name], f"{name} in Lagrange bases")


def _level(ptau: PowersOfTau, name: str, power: int) -> Words:
    """Return the Lagrange basis of size 2**power from a section with the bases of all sizes."""
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
