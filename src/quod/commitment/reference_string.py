"""Reference strings: powers of a secret tau in BN254 G1 and G2.

They come from a ceremony, as a file of powers of tau (`quod.formats.ptau`). Anyone who knows tau
can open a commitment to any value; the ceremony must ensure that nobody does. This module checks
that the points are powers of one tau.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from quod.commitment.scalars import GROUP, points_of
from quod.commitment.scheme import MAX_LOG2_SIZE
from quod.curve.array import from_points, to_points
from quod.curve.encoding.points import encode_point
from quod.curve.groups import GROUPS
from quod.curve.pairing.products import pairing_product_is_one
from quod.curve.parameters import G1Point, G2Point
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, InsecureKeyError, MismatchError
from quod.field.array import Words, integers_to_words
from quod.formats import PowersOfTau
from quod.formats.source import Path
from quod.frozen import frozen
from quod.msm import MsmBases, MsmOptions, msm_words, multiply_generator
from quod.validation import flag, whole_number

GROUP_2 = GROUPS["bn254.g2"]
_CURVE = GROUP.curve

POWERS_OF_G2 = 4
"""The number of powers of tau in G2 that check openings, including the generator."""

_VERIFIER_POWERS = 3
_RANDOM_BITS = 128
_ADVICE = (
    "use the file of a ceremony with many contributions; for tests only, insecure=True "
    "accepts any string"
)


@frozen(eq=False)
class ReferenceString:
    """A reference string.

    powers_g1: the powers tau**0, tau**1, ... in G1, as an array of points.
    tau_g2: tau, tau**2 and tau**3 in G2, as affine integers.
    `from_ptau` reads and checks one. A verifier needs only the first three powers in G1
    (`of_verifier`).
    """

    powers_g1: Words
    tau_g2: tuple[G2Point, ...]

    def __init__(self, *_: object, **__: object) -> None:
        raise InputError("read a reference string with ReferenceString.from_ptau(path, log2_size)")

    @classmethod
    def _of(cls, powers_g1: Words, tau_g2: Sequence[G2Point]) -> ReferenceString:
        """Build a reference string from validated points."""
        reference = object.__new__(cls)
        powers_g1.flags.writeable = False
        reference.__dict__.update(powers_g1=powers_g1, tau_g2=tuple(tau_g2))
        return reference

    def __len__(self) -> int:
        return len(self.powers_g1)

    @classmethod
    def from_ptau(
        cls, path: Path, log2_size: int, *, device: DeviceChoice = "cpu", insecure: bool = False
    ) -> ReferenceString:
        """Read and check the first 2**log2_size powers (at least four) of a file.

        The points must be in their groups, begin with the generators, and be powers of one tau;
        pairings of random sums check the latter. Raises InputError for a damaged file or too few
        powers, MismatchError for another curve, and InsecureKeyError if tau is publicly known
        because nobody contributed, unless `insecure` is set, for tests.
        """
        count = max(1 << _check_size(log2_size), POWERS_OF_G2)
        insecure = flag("insecure", insecure)
        file = PowersOfTau.open(path)
        if file.curve != _CURVE.name:
            raise MismatchError(f"has powers of {file.curve}, not of {_CURVE.name}",
                                path=file.path)  # fmt: skip
        if count > 1 << file.power:
            raise InputError(
                f"has 2**{file.power} powers, but {count} are required; use a larger file",
                path=file.path,
            )
        powers = np.array(file.tau_g1[:count])
        powers_g2 = np.array(file.tau_g2[:POWERS_OF_G2])
        opened_device = resolve_device(device)
        for name, group, points in (("tau_g1", GROUP, powers), ("tau_g2", GROUP_2, powers_g2)):
            bad_point = first_bad_point(opened_device, group, points, subgroup=True, infinity=False)
            if bad_point is not None:
                file.refuse(name, *bad_point)
        first, (generator, *tau_g2) = to_points(GROUP, powers[:2]), to_points(GROUP_2, powers_g2)
        if first[0] != _CURVE.g1.generator:
            file.refuse("tau_g1", 0, "is not the generator")
        if generator != _CURVE.g2.generator:
            file.refuse("tau_g2", 0, "is not the generator")
        if not insecure and _is_known(first[1]):
            raise InsecureKeyError(
                f"{file.path}: everyone knows its tau, as nobody contributed to it; {_ADVICE}"
            )
        reference = cls._of(powers, tau_g2)
        reference._check(opened_device, file)
        return reference

    @classmethod
    def of_tau(cls, tau: int, log2_size: int, *, insecure: bool) -> ReferenceString:
        """INSECURE: compute the powers of a known tau, which can open any claim; for tests.

        Raises InsecureKeyError unless `insecure` is True.
        """
        count = max(1 << _check_size(log2_size), POWERS_OF_G2)
        order = GROUP.scalars.value
        tau = whole_number("tau", tau, 1, order - 1)
        if not flag("insecure", insecure):
            raise InsecureKeyError(f"the maker of a reference string knows its tau; {_ADVICE}")
        powers_of_tau = [1]
        for _ in range(count - 1):
            powers_of_tau.append(powers_of_tau[-1] * tau % order)
        scalars = integers_to_words(GROUP.scalars, powers_of_tau)
        powers = multiply_generator(resolve_device("cpu"), GROUP, scalars)
        law = g2_group(_CURVE)
        return cls._of(
            powers, [law.multiply(power, law.generator) for power in powers_of_tau[1:POWERS_OF_G2]]
        )

    @classmethod
    def of_verifier(
        cls, tau_g1: Sequence[G1Point], tau_g2: Sequence[G2Point], *, insecure: bool = False
    ) -> ReferenceString:
        """Build a verifier's reference string.

        tau_g1: tau and tau**2 in G1.
        tau_g2: tau, tau**2 and tau**3 in G2.
        InputError unless the points are in their groups and powers of one tau. InsecureKeyError
        for a tau that everyone knows, unless `insecure`. The caller must know that the points come
        from a ceremony, as with every verifying key.
        """
        groups = ((GROUP, tau_g1, _VERIFIER_POWERS - 1), (GROUP_2, tau_g2, POWERS_OF_G2 - 1))
        for group, points, count in groups:
            powers: object = points
            if not isinstance(powers, (list, tuple)) or len(powers) != count:
                raise InputError(f"a verifier needs {count} powers of tau in {group.name}")
            if first_bad_point(
                resolve_device("cpu"), group, from_points(group, powers), subgroup=True,
                infinity=False,
            ):  # fmt: skip
                raise InputError(f"a power of tau is not a point of {group.name}")
        generator, generator_g2, law = _CURVE.g1.generator, _CURVE.g2.generator, g1_group(_CURVE)
        if not flag("insecure", insecure) and _is_known(tau_g1[0]):
            raise InsecureKeyError(f"everyone knows the tau of the reference string; {_ADVICE}")
        pairs: list[tuple[G1Point, G2Point, G1Point, G2Point]]
        pairs = [
            (tau_g1[0], generator_g2, generator, tau_g2[0]),
            (tau_g1[1], generator_g2, tau_g1[0], tau_g2[0]),
        ]
        pairs += [
            (tau_g1[0], power, generator, next_) for power, next_ in itertools.pairwise(tau_g2)
        ]
        for left, left_2, right, right_2 in pairs:
            if not pairing_product_is_one(
                resolve_device("cpu"), _CURVE, [(left, left_2), (law.negate(right), right_2)]
            ):
                raise InputError("the points of the reference string are not powers of one tau")
        return cls._of(from_points(GROUP, [generator, *tau_g1]), tau_g2)

    @property
    def is_known(self) -> bool:
        """True if tau is 0, 1 or -1, which everyone knows, as without any contribution."""
        return _is_known(self.tau_g1[1])

    @cached_property
    def tau_g1(self) -> tuple[G1Point, ...]:
        """The first three powers in G1, as affine integers."""
        return tuple(to_points(GROUP, self.powers_g1[:_VERIFIER_POWERS]))

    @cached_property
    def digest(self) -> bytes:
        """SHA3-256 of a verifier's points: tau and tau**2 in G1; tau, tau**2 and tau**3 in G2."""
        parts = [encode_point(GROUP, point) for point in self.tau_g1[1:]]
        parts += [encode_point(GROUP_2, point) for point in self.tau_g2]
        return hashlib.sha3_256(b"".join(parts)).digest()

    def _check(self, device: AnyDevice, file: PowersOfTau) -> None:
        """Raise InputError unless all points are powers of one tau."""
        law, count = g1_group(_CURVE), len(self)
        tau, generators = self.tau_g1[1], (_CURVE.g1.generator, _CURVE.g2.generator)
        factors = np.zeros((count - 1, 8), np.uint32)
        random_words = _RANDOM_BITS // 32
        factors[:, :random_words] = np.frombuffer(
            secrets.token_bytes(4 * random_words * (count - 1)), np.uint32
        ).reshape(-1, random_words)
        options = MsmOptions(scalar_bits=_RANDOM_BITS, precompute_factor=1)
        lower, upper = (
            points_of(GROUP, msm_words(MsmBases(device, GROUP, points, options), factors))[0]
            for points in (self.powers_g1[:-1], self.powers_g1[1:])
        )
        host = resolve_device("cpu")
        if not pairing_product_is_one(
            host, _CURVE, [(lower, self.tau_g2[0]), (law.negate(upper), generators[1])]
        ):
            raise InputError(
                f"the first {count} points of tau_g1 are not powers of the tau of "
                "tau_g2; the file is damaged or forged, get it again from its source",
                path=file.path,
            )
        previous: G2Point = generators[1]
        for number, point in enumerate(self.tau_g2, start=1):
            if not pairing_product_is_one(
                host, _CURVE, [(tau, previous), (law.negate(generators[0]), point)]
            ):
                file.refuse("tau_g2", number, "is not tau times the one before")
            previous = point


def _is_known(tau: G1Point) -> bool:
    """Return whether tau is 0, 1 or -1, given tau in G1."""
    return tau is None or tau[0] == _CURVE.g1.generator[0]


def _check_size(log2_size: object) -> int:
    return whole_number("log2_size", log2_size, 1, MAX_LOG2_SIZE)
