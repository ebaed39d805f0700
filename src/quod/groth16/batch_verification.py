"""Batch verification: one final exponentiation for many proofs; bisection finds the invalid ones.

With a random z_i for each proof, and X_i its key's IC_0 plus the sum of its public inputs times the
other IC, valid proofs satisfy the equation below. The first product is over all proofs, and each
sum is over the proofs of one key:

    product of e(z_i*A_i, B_i) * product over keys of
        e(-sum of z_i*X_i, gamma) * e(-sum of z_i*C_i, delta) * e(-sum of z_i*alpha, beta) = 1

A list with an invalid proof satisfies this with probability 2**-128 (Bellare, Garay, Rabin, "Fast
batch verification for modular exponentiation and digital signatures", EUROCRYPT 1998; Zcash
protocol specification, appendix B.2). Each z_i is a random nonzero number of 128 bits. The z_i are
drawn after all inputs are copied and never leave this module, because someone who knew them
beforehand could make invalid proofs whose errors cancel.

Points are first checked as `VerifyingKey.verify` does, because points outside the subgroup could
satisfy the equation.
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
"""A key, public inputs and a proof; see `VerifyingKey.verify`."""

_COEFFICIENT_BYTES = 16

# Bisection stops, and the remaining proofs are verified one by one, in two cases: all blocks have
# at most _SMALL_BLOCK proofs, or at least _MIN_TESTED_BLOCKS blocks were tested and all failed.
# More bisection would not be cheaper.
_SMALL_BLOCK, _MIN_TESTED_BLOCKS = 2, 4

# Up to this many points, adding them on the host is faster than a launch.
_MAX_HOST_ADDITIONS = 12


@frozen
class Verdict:
    """The result for one proof of a batch; true in a boolean context if the proof is valid.

    valid: whether the proof is valid for its public inputs.
    error: the error that `VerifyingKey.verify` raises for a malformed proof; None for a well-formed
        proof, even if it is invalid.
    """

    valid: bool
    error: InputError | None = None

    def __bool__(self) -> bool:
        return self.valid


def verify_batch(claims: Iterable[Claim]) -> list[Verdict]:
    """Verify many proofs, and return the verdicts of `VerifyingKey.verify` in order.

    Keys may have different curves and devices; proofs over one curve on one device form a batch. If
    a batch fails, bisection finds its invalid proofs. The error of a malformed proof or input is in
    its verdict; the other proofs are verified. Raises `InputError` if `claims` is not a list of
    claims, and `DeviceError`.
    """
    return _verify(claims, _coefficients)


def _coefficients(count: int) -> list[int]:
    """Draw `count` random nonzero numbers of 128 bits."""
    coefficients: list[int] = []
    while len(coefficients) < count:
        if coefficient := int.from_bytes(os.urandom(_COEFFICIENT_BYTES), "little"):
            coefficients.append(coefficient)
    return coefficients


def _verify(claims: Iterable[Claim], draw: Callable[[int], list[int]]) -> list[Verdict]:
    """Verify as `verify_batch` does, with coefficients from `draw`, which tests replace."""
    verdicts: dict[int, Verdict] = {}
    batches: dict[tuple[str, int], _Batch] = {}
    count = 0
    for index, claim in enumerate(in_order("the claims", claims)):
        count += 1
        key, public, proof = _claim_parts(index, claim)
        try:
            inputs, parsed_proof = key._validate_statement(public, proof)
        except InputError as error:
            verdicts[index] = Verdict(False, error)
            continue
        # A device is opened once and kept by its keys, so its id stays unique.
        batch = batches.setdefault((key.curve, id(key.device)), _Batch(key.curve, key.device))
        batch.members.append(_Member(index, key, inputs, parsed_proof))
    for batch in batches.values():
        verdicts |= batch.verdicts(draw)
    return [verdicts[index] for index in range(count)]


def _claim_parts(index: int, claim: object) -> Claim:
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
        key_positions: dict[int, int] = {}
        for member in self.members:
            key_positions.setdefault(id(member.key), len(key_positions))
        self.members.sort(key=lambda member: key_positions[id(member.key)])
        verdicts = self._check_points()
        if self.members:
            self._set_coefficients(draw(len(self.members)))
            invalid = self._find_invalid()
            verdicts |= {
                member.index: Verdict(position not in invalid)
                for position, member in enumerate(self.members)
            }
        return verdicts

    # --- the checks of single verification

    def _check_points(self) -> dict[int, Verdict]:
        """Remove members with a malformed point and return their verdicts; copy the other points.

        Two launches check all points. For the error of a malformed point, its proof is checked
        again as a single proof.
        """
        verdicts: dict[int, Verdict] = {}
        points: list[list[Point]] = []
        copied_members: list[_Member] = []
        for member in self.members:
            if (copies := _copy_points(member.proof, self._curve.fq.value)) is None:
                verdicts[member.index] = self._malformed_verdict(member)
            else:
                points.append(copies)
                copied_members.append(member)
        self._a, self._b, self._c = (
            from_points(group, [triple[column] for triple in points])
            for column, group in enumerate((self._g1, self._g2, self._g1))
        )
        count = len(copied_members)
        if not count:
            self.members = []
            return verdicts
        g1_is_valid = operations.is_in_subgroup(
            self._device, self._g1, np.concatenate([self._a, self._c])
        )  # fmt: skip
        is_valid = operations.is_in_subgroup(self._device, self._g2, self._b)
        is_valid &= g1_is_valid[:count] & g1_is_valid[count:]
        for position in np.flatnonzero(~is_valid):
            member = copied_members[position]
            verdicts[member.index] = self._malformed_verdict(member)
        self._a, self._b, self._c = self._a[is_valid], self._b[is_valid], self._c[is_valid]
        self.members = [member for member, keep in zip(copied_members, is_valid) if keep]
        return verdicts

    def _malformed_verdict(self, member: _Member) -> Verdict:
        """Return the verdict, with its error, on a member with a malformed point."""
        try:
            member.key._validate_points(member.proof)
        except InputError as error:
            return Verdict(False, error)
        # The batched check rejected a point that the single check accepts.
        raise not_written(self._device, "which points are in the group")

    # --- the equation

    def _set_coefficients(self, coefficients: list[int]) -> None:
        """Set random coefficients, and compute the values that the tests of all blocks use.

        For a proof with coefficient z, these are z * C and the Miller loop of (z * A, B).
        """
        self._z = coefficients
        count = len(self.members)
        coefficient_bytes = b"".join(z.to_bytes(_COEFFICIENT_BYTES, "little") for z in coefficients)
        scalars = np.frombuffer(coefficient_bytes, "<u4").astype(np.uint32).reshape(count, -1)
        multiples = operations.multiply(
            self._device, self._g1, np.concatenate([self._a, self._c]),
            np.concatenate([scalars, scalars]),
        )  # fmt: skip
        self._scaled_c = multiples[count:]
        self._values = miller_words(self._device, self._curve, multiples[:count], self._b)

    def _find_invalid(self) -> set[int]:
        """Return the positions of the members with invalid proofs, found by bisection."""
        all_members = range(len(self.members))
        failing = self._failing_blocks([all_members])
        invalid: set[int] = set()
        tested = 1
        while failing:
            invalid |= {block[0] for block in failing if len(block) == 1}
            failing, failing_count = (
                [block for block in failing if len(block) > 1],
                len(failing),
            )
            all_failed = failing_count == tested >= _MIN_TESTED_BLOCKS
            if all_failed or all(len(block) <= _SMALL_BLOCK for block in failing):
                singles = [range(position, position + 1) for block in failing for position in block]
                return invalid | {block[0] for block in self._failing_blocks(singles)}
            halves = [(block[: len(block) // 2], block[len(block) // 2 :]) for block in failing]
            tested = 2 * len(halves)
            left_failing = self._failing_blocks([left for left, _ in halves])
            # If the left half of a failing block passes, the right half must fail.
            left_failing_set = set(left_failing)
            right_failing = self._failing_blocks(
                [right for left, right in halves if left in left_failing_set]
            )
            failing = (
                left_failing
                + right_failing
                + [right for left, right in halves if left not in left_failing_set]
            )
        return invalid

    def _failing_blocks(self, blocks: Sequence[range]) -> list[range]:
        """Return those of the blocks of members whose equation does not hold."""
        if not blocks:
            return []
        shared = self._shared_pairs(blocks)
        pairs = [pair for block_pairs in shared for pair in block_pairs]
        values = miller_values(self._device, self._curve, pairs)
        ends = np.cumsum([len(block_pairs) for block_pairs in shared])

        def holds(index: int) -> bool:
            block, end = blocks[index], int(ends[index])
            factors = (
                self._values[block.start : block.stop],
                values[end - len(shared[index]) : end],
            )
            return product_is(self._device, self._curve, np.concatenate(factors), ONE)

        if len(blocks) == 1:
            answers = {"0": holds(0)}
        else:
            # The final exponentiation uses one core.
            tasks = {str(index): functools.partial(holds, index) for index in range(len(blocks))}
            answers = run_concurrently(
                tasks, self._device.multiprocessors, "quod-batch", lambda: None
            )
        return [block for block, answer in zip(blocks, answers.values()) if not answer]

    def _shared_pairs(self, blocks: Sequence[range]) -> list[list[Pair]]:
        """Return, per block, its keys' pairs with gamma, beta and delta: three pairs per key."""
        r = self._curve.fr.value
        keys = [list(self._by_key(block)) for block in blocks]
        sums: list[tuple[Sequence[Point], list[int]]] = []
        for key, positions in (
            members_of_key for block_keys in keys for members_of_key in block_keys
        ):
            weights = [self._z[position] for position in positions]
            columns = zip(
                *([1, *self.members[position].inputs] for position in positions), strict=True
            )
            # The column of ones gives the scalar of IC_0, which is that of alpha, too.
            scalars = [-sum(map(operator.mul, weights, column)) % r for column in columns]
            sums += [(key.ic, scalars), ((key.alpha_g1,), scalars[:1])]
        combined = iter(sums_of_multiples(self._device, self._g1, sums))
        return [
            [
                pair
                for key, positions in block_keys
                for pair in (
                    (next(combined), key.gamma_g2),
                    (next(combined), key.beta_g2),
                    (self._law.negate(self._sum_of_c(positions)), key.delta_g2),
                )
            ]
            for block_keys in keys
        ]

    def _sum_of_c(self, positions: range) -> Point:
        """Return the sum of z_i*C_i over a range of members."""
        points = self._scaled_c[positions.start : positions.stop]
        if len(positions) > _MAX_HOST_ADDITIONS:
            points = operations.sum_points(self._device, self._g1, points)[None]
        return functools.reduce(self._law.add, to_points(self._g1, points), None)

    def _by_key(self, block: range) -> Iterable[tuple[VerifyingKey, range]]:
        """Yield each key of a block, with the range of its members, which are adjacent."""
        start = block.start
        for position in block:
            key = self.members[position].key
            if position + 1 == block.stop or self.members[position + 1].key is not key:
                yield key, range(start, position + 1)
                start = position + 1


def _copy_points(proof: Proof, q: int) -> list[Point] | None:
    """Return copies of A, B and C; None if one is infinity or has a coordinate not below q."""
    named_points = (("pi_a", proof.a, 1), ("pi_b", proof.b, 2), ("pi_c", proof.c, 1))
    try:
        points = [plain_point(point, degree, name) for name, point, degree in named_points]
    except InputError:
        return None
    for (_, _, degree), point in zip(named_points, points, strict=True):
        coordinates = () if point is None else point if degree == 1 else (*point[0], *point[1])
        # (0, 0) would become infinity in an array of points.
        if not any(coordinates) or any(not 0 <= value < q for value in coordinates):
            return None
    return points
