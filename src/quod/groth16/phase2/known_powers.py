"""INSECURE prepared powers of tau for tests and benchmarks, whose secrets follow from a seed.

The file has the layout of powers that snarkjs has prepared, without contributions. It is fast to
make, as all points are multiples of the generators by known scalars.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

import numpy as np

from quod.ceremony.multiples import powers_of
from quod.ceremony.secret import Secret as Scalar
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.parameters import PairingCurve
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.field.array import Words, check_seed, integers_to_words
from quod.field.roots import root_of_unity
from quod.formats import write_atomically
from quod.formats.curves import curve_named
from quod.formats.iden3 import Buffer, little_u32
from quod.formats.iden3_stream import PlannedSection, write_planned
from quod.formats.ptau import KIND, VERSION
from quod.groth16.lagrange import lagrange_at, scaled, weighted_sum
from quod.groth16.setup import Secret
from quod.msm.fixed_base import FixedBase
from quod.validation import whole_number

_CHUNK = 1 << 20


def write_known_powers(
    path: str | PathLike[str], curve: str, power: int, seed: int, *, device: DeviceChoice = "cpu"
) -> None:
    """Write 2**`power` INSECURE prepared powers of tau. Equal seeds make equal files.

    Raises `InputError` for an unknown curve, or for more powers than the roots of unity of its
    field allow, and `OutputError` if the file cannot be written.
    """
    check_seed(seed)
    pairing_curve = curve_named(curve)
    power = whole_number("power", power, 1, pairing_curve.fr.two_adicity - 1)
    powers = _KnownPowers(resolve_device(device), pairing_curve, power, seed)
    write_atomically(path, lambda file: write_planned(file, KIND, VERSION, powers.sections()))


class _KnownPowers:
    """The sections of a file of powers of tau with known secrets."""

    def __init__(self, device: AnyDevice, curve: PairingCurve, power: int, seed: int) -> None:
        self._device, self._curve, self._power = device, curve, power
        self._secret = Secret.from_seed(seed, curve.fr, 2 << power)
        self._factors = {
            "tau_g1": 1, "tau_g2": 1, "alpha_tau_g1": self._secret.alpha,
            "beta_tau_g1": self._secret.beta,
        }  # fmt: skip
        # About the number of multiples of each generator, by which the tables are chosen.
        count = 8 << power
        self._bases = {
            degree: FixedBase(
                device, self._group(degree), self._group(degree).parameters.generator, count
            )
            for degree in (1, 2)
        }

    def _group(self, degree: int) -> Group:
        return GROUPS[f"{self._curve.name}.g{degree}"]

    def sections(self) -> list[PlannedSection]:
        """Return the sections of a prepared file."""
        fq, power = self._curve.fq, self._power
        count_g2 = 1 << power
        beta = integers_to_words(self._curve.fr, [self._secret.beta])
        sections = [
            PlannedSection.of(
                1, little_u32(fq.bytes), fq.value.to_bytes(fq.bytes, "little"), little_u32(power),
                little_u32(power),
            ),
        ]  # fmt: skip
        for identifier, name in enumerate(self._factors, 2):
            count = 2 * count_g2 - 1 if name == "tau_g1" else count_g2
            sections.append(self._points(identifier, name, [(None, count)]))
        sections.append(PlannedSection.of(6, self._bases[2].multiply(beta)))
        sections.append(PlannedSection.of(7, little_u32(0)))
        for identifier, name in enumerate(self._factors, 12):
            max_level = power + 1 if name == "tau_g1" else power
            sections.append(
                self._points(
                    identifier, name, [(level, 1 << level) for level in range(max_level + 1)]
                )
            )
        return sections

    def _points(
        self, identifier: int, name: str, levels: list[tuple[int | None, int]]
    ) -> PlannedSection:
        """Return a section with the points of each of `levels`, a level and a number of points.

        They are the Lagrange basis of size 2**level, or for the level None the powers of tau.
        """
        degree = 2 if name == "tau_g2" else 1
        point_bytes = 8 * self._group(degree).point_words

        def parts() -> Iterator[Buffer]:
            for level, count in levels:
                scalars = self._powers(count) if level is None else self._lagrange(level)
                if self._factors[name] != 1:
                    scalars = scaled(self._device, self._curve.fr, scalars, self._factors[name])
                for start in range(0, count, _CHUNK):
                    part = np.ascontiguousarray(scalars[start : start + _CHUNK])
                    yield self._bases[degree].multiply(part)

        return PlannedSection(identifier, point_bytes * sum(count for _, count in levels), parts)

    def _powers(self, count: int, base: int | None = None) -> Words:
        fr = self._curve.fr
        powers = np.empty((count, fr.words), np.uint32)
        base_value = self._secret.tau if base is None else base
        powers_of(Scalar.of_public(fr, base_value), None, 0, powers)
        return powers

    def _lagrange(self, level: int) -> Words:
        """Return the Lagrange polynomials of the domain of size 2**level at tau.

        For the level above `power`, a file lacks the highest power of tau, and snarkjs treats it as
        0; so does this.
        """
        fr, n = self._curve.fr, 1 << level
        r, root = fr.value, root_of_unity(fr, "snarkjs", level)
        lagrange_values = lagrange_at(
            self._device, fr, count=n, root=root, shift=1, point=self._secret.tau,
            scale=self._secret.lagrange_scale(fr, n, 1),
        )  # fmt: skip
        if level <= self._power:
            return lagrange_values
        # L_i has the term root**i * tau**(n - 1) / n.
        highest_weight = pow(self._secret.tau, n - 1, r) * pow(n, -1, r) % r
        roots = self._powers(n, root)
        # Only the weights are in Montgomery form, so sums of canonical values are canonical.
        return weighted_sum(
            self._device,
            fr,
            (1, r - highest_weight, 0),
            lagrange_values,
            roots,
            np.zeros_like(lagrange_values),
        )
