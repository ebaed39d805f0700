"""Batch verification: one final exponentiation for many proofs; bisection finds the invalid ones.

With a random z_i for each proof, X_i the sum of its public inputs times the IC of its key, and the
sums over the proofs of a key:

    product of e(z_i*A_i, B_i) * product over keys of
        e(-sum of z_i*X_i, gamma) * e(-sum of z_i*C_i, delta) * e(-sum of z_i*alpha, beta) = 1

which a list with an invalid proof passes with probability 2**-128 (Bellare, Garay, Rabin, "Fast
batch verification for modular exponentiation and digital signatures", EUROCRYPT 1998; Zcash
protocol specification, appendix B.2). Each z_i is 128 random bits, not all 0. It is drawn after all
inputs are copied and never leaves this module, because whoever knew it beforehand could make
invalid proofs whose errors cancel.

Points are first checked as `VerifyingKey.verify` does: with the equation alone, points outside the
subgroup could pass.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from quod.curve.affine_law import plain_point
from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.pairing.products import ONE, Pair, miller_values, miller_words, product_is
from quod.curve.parameters import PairingCurve
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.device.runtime.concurrent import run_concurrently
from quod.device.runtime.sentinel import not_written
from quod.errors import InputError
from quod.frozen import frozen
from quod.groth16.points import sums_of_multiples
from quod.groth16.proof import Proof
from quod.groth16.verifier import VerifyingKey
from quod.validation import in_order

Claim = tuple[VerifyingKey, Iterable[int | str], Proof | Mapping[str, Any]]
"""A key, public inputs and a proof, as `VerifyingKey.verify` takes them."""

_COEFFICIENT_BYTES = 16

# Bisection stops, and proofs are verified one by one, at blocks of _FEW proofs, and when all of at
# least _TELLING tested blocks have an invalid proof: further halving would not be cheaper.
_FEW, _TELLING = 2, 4

# The number of points up to which this module adds faster than a device.
_FEW_POINTS = 12


@frozen
class Verdict:
    """The result for one proof of a batch; true in a boolean context if the proof is valid.

    valid: whether the proof holds for its public inputs.
    error: the error that `VerifyingKey.verify` raises for a malformed proof; None for a well-formed
        proof, even if it is invalid.
    """

    valid: bool
    error: InputError | None = None

    def __bool__(self) -> bool:
        return self.valid


def verify_batch(claims: Iterable[Claim]) -> list[Verdict]:
    """Verify many proofs, and return the verdicts of `VerifyingKey.verify` in order.

    Keys may have different curves and devices: proofs over one curve on one device form a batch. A
    batch that fails is halved. The error of a malformed proof or input is in its verdict; the other
    proofs are verified. Raises `InputError` if `claims` is not a list of claims, and `DeviceError`.
    """
    return _verify(claims, _coefficients)


def _coefficients(count: int) -> list[int]:
    """Draw `count` random nonzero numbers of 128 bits."""
    coefficients: list[int] = []
    while len(coefficients) < count:
        if drawn := int.from_bytes(os.urandom(_COEFFICIENT_BYTES), "little"):
            coefficients.append(drawn)
    return coefficients


def _verify(claims: Iterable[Claim], draw: Callable[[int], list[int]]) -> list[Verdict]:
    """Verify as `verify_batch` does, with coefficients from `draw`, which tests replace."""
    verdicts: dict[int, Verdict] = {}
    batches: dict[tuple[str, int], _Batch] = {}
    count = 0
    for index, claim in enumerate(in_order("the claims", claims)):
        count += 1
        key, public, proof = _parts(index, claim)
        try:
            inputs, checked = key._checked_statement(public, proof)
        except InputError as error:
            verdicts[index] = Verdict(False, error)
            continue
        # Devices are opened once each, and a key keeps its own.
        batch = batches.setdefault((key.curve, id(key.device)), _Batch(key.curve, key.device))
        batch.members.append(_Member(index, key, inputs, checked))
    for batch in batches.values():
        verdicts |= batch.verdicts(draw)
    return [verdicts[index] for index in range(count)]


def _parts(index: int, claim: object) -> Claim:
    parts = tuple(claim) if isinstance(claim, list | tuple) else ()
    if len(parts) != 3 or not isinstance(parts[0], VerifyingKey):
        raise InputError(
            f"claim {index} must be a verifying key, public inputs and a proof, in this order"
        )
    return parts[0], parts[1], parts[2]


@frozen(eq=False)
class _Member:
    """A claim whose public inputs are copied and checked."""

    index: int
    key: VerifyingKey
    inputs: list[int]
    proof: Proof


class _Batch:
    """Proofs over one curve, verified on one device."""

    def __init__(self, curve: str, device: AnyDevice) -> None:
        self.members: list[_Member] = []
        self._curve: PairingCurve = CURVES[curve]
        self._device = device
        self._g1: Group = GROUPS[f"{curve}.g1"]
        self._law = affine_group(self._g1)
        self._g2: Group = GROUPS[f"{curve}.g2"]

    def verdicts(self, draw: Callable[[int], list[int]]) -> dict[int, Verdict]:
        """Return the verdicts on the members, by index of the claim."""
        # Proofs of the same key are adjacent, so that halves have few keys.
        place: dict[int, int] = {}
        for member in self.members:
            place.setdefault(id(member.key), len(place))
        self.members.sort(key=lambda member: place[id(member.key)])
        verdicts = self._check_points()
        if self.members:
            self._draw(draw(len(self.members)))
            bad = self._bad()
            verdicts |= {
                member.index: Verdict(position not in bad)
                for position, member in enumerate(self.members)
            }
        return verdicts

    # --- the checks of single verification

    def _check_points(self) -> dict[int, Verdict]:
        """Remove members with a malformed point and return their verdicts; copy the other points.

        Two launches check all points; the check of a single proof then gives the error of a
        malformed point.
        """
        verdicts: dict[int, Verdict] = {}
        points: list[list[Point]] = []
        kept: list[_Member] = []
        for member in self.members:
            if (copies := _copied(member.proof, self._curve.fq.value)) is None:
                verdicts[member.index] = self._malformed(member)
            else:
                points.append(copies)
                kept.append(member)
        self._a, self._b, self._c = (
            from_points(group, [triple[place] for triple in points])
            for place, group in enumerate((self._g1, self._g2, self._g1))
        )
        count = len(kept)
        if not count:
            self.members = []
            return verdicts
        both = operations.is_in_subgroup(
            self._device, self._g1, np.concatenate([self._a, self._c])
        )  # fmt: skip
        good = operations.is_in_subgroup(self._device, self._g2, self._b)
        good &= both[:count] & both[count:]
        for position in np.flatnonzero(~good):
            member = kept[position]
            verdicts[member.index] = self._malformed(member)
        self._a, self._b, self._c = self._a[good], self._b[good], self._c[good]
        self.members = [member for member, is_good in zip(kept, good) if is_good]
        return verdicts

    def _malformed(self, member: _Member) -> Verdict:
        try:
            member.key._checked_points(member.proof)
        except InputError as error:
            return Verdict(False, error)
        # Two checks of one point contradict each other.
        raise not_written(self._device, "which points are in the group")

    # --- the equation

    def _draw(self, coefficients: list[int]) -> None:
        """Set random coefficients, and compute the values that every subset of proofs reuses.

        These are z * C, and the Miller values of (z * A, B), per proof with coefficient z.
        """
        self._z = coefficients
        count = len(self.members)
        raw = b"".join(z.to_bytes(_COEFFICIENT_BYTES, "little") for z in coefficients)
        scalars = np.frombuffer(raw, "<u4").astype(np.uint32).reshape(count, -1)
        scaled = operations.multiply(
            self._device, self._g1, np.concatenate([self._a, self._c]),
            np.concatenate([scalars, scalars]),
        )  # fmt: skip
        self._scaled_c = scaled[count:]
        self._values = miller_words(self._device, self._curve, scaled[:count], self._b)

    def _bad(self) -> set[int]:
        """Return the positions of the invalid members."""
        everyone = range(len(self.members))
        suspicious = self._failing([everyone])
        bad: set[int] = set()
        tested = 1
        while suspicious:
            bad |= {block[0] for block in suspicious if len(block) == 1}
            suspicious, failing_count = (
                [block for block in suspicious if len(block) > 1],
                len(suspicious),
            )
            many = failing_count == tested >= _TELLING
            if many or all(len(block) <= _FEW for block in suspicious):
                singles = [range(at, at + 1) for block in suspicious for at in block]
                return bad | {block[0] for block in self._failing(singles)}
            halves = [(block[: len(block) // 2], block[len(block) // 2 :]) for block in suspicious]
            tested = 2 * len(halves)
            first = self._failing([left for left, _ in halves])
            # If the first half of a failing block holds, the second half fails.
            wrong = set(first)
            second = self._failing([right for left, right in halves if left in wrong])
            suspicious = first + second + [right for left, right in halves if left not in wrong]
        return bad

    def _failing(self, blocks: Sequence[range]) -> list[range]:
        """Return the blocks of members whose equation fails."""
        if not blocks:
            return []
        shared = self._shared_pairs(blocks)
        pairs = [pair for of_block in shared for pair in of_block]
        values = miller_values(self._device, self._curve, pairs)
        ends = np.cumsum([len(of_block) for of_block in shared])

        def holds(number: int) -> bool:
            block, last = blocks[number], int(ends[number])
            factors = (
                self._values[block.start : block.stop],
                values[last - len(shared[number]) : last],
            )
            return product_is(self._device, self._curve, np.concatenate(factors), ONE)

        if len(blocks) == 1:
            answers = {"0": holds(0)}
        else:
            # The end of a pairing is work for one core.
            tasks = {str(number): functools.partial(holds, number) for number in range(len(blocks))}
            answers = run_concurrently(
                tasks, self._device.multiprocessors, "quod-batch", lambda: None
            )
        return [block for block, answer in zip(blocks, answers.values()) if not answer]

    def _shared_pairs(self, blocks: Sequence[range]) -> list[list[Pair]]:
        """Return, per block, the three pairs of each of its keys."""
        r = self._curve.fr.value
        keys = [list(self._by_key(block)) for block in blocks]
        sums: list[tuple[Sequence[Point], list[int]]] = []
        for key, positions in (members_of_key for of_block in keys for members_of_key in of_block):
            z = [self._z[at] for at in positions]
            columns = zip(*([1, *self.members[at].inputs] for at in positions), strict=True)
            scalars = [-sum(map(operator.mul, z, column)) % r for column in columns]
            sums += [(key.ic, scalars), ((key.alpha_g1,), scalars[:1])]
        combined = iter(sums_of_multiples(self._device, self._g1, sums))
        return [
            [
                pair
                for key, positions in of_block
                for pair in (
                    (next(combined), key.gamma_g2),
                    (next(combined), key.beta_g2),
                    (self._law.negate(self._sum_of_c(positions)), key.delta_g2),
                )
            ]
            for of_block in keys
        ]

    def _sum_of_c(self, positions: range) -> Point:
        """Return the sum of z_i*C_i over a range of members."""
        points = self._scaled_c[positions.start : positions.stop]
        if len(positions) > _FEW_POINTS:
            points = operations.sum_points(self._device, self._g1, points)[None]
        return functools.reduce(self._law.add, to_points(self._g1, points), None)

    def _by_key(self, block: range) -> Iterable[tuple[VerifyingKey, range]]:
        start = block.start
        for at in block:
            key = self.members[at].key
            if at + 1 == block.stop or self.members[at + 1].key is not key:
                yield key, range(start, at + 1)
                start = at + 1


def _copied(proof: Proof, q: int) -> list[Point] | None:
    """Return copies of A, B and C, or None unless all are finite with coordinates below q."""
    named_points = (("pi_a", proof.a, 1), ("pi_b", proof.b, 2), ("pi_c", proof.c, 1))
    try:
        points = [plain_point(point, degree, name) for name, point, degree in named_points]
    except InputError:
        return None
    for (_, _, degree), point in zip(named_points, points, strict=True):
        flat = () if point is None else point if degree == 1 else (*point[0], *point[1])
        # All zero is infinity in an array.
        if not any(flat) or any(not 0 <= value < q for value in flat):
            return None
    return points
