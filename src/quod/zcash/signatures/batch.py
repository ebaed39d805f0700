"""Batch verification of RedJubjub signatures: Zcash protocol specification, appendix B.1.

With a random z_i of 128 bits for each signature, valid signatures satisfy

    8 * (sum of z_i*R_i + sum of z_i*c_i*vk_i - sum over schemes of (sum of z_i*S_i)*P) = 0

and a list with an invalid one does so with probability at most 1/(2**128 - 1). The left side is one
MSM. If it is not 0, halves are tested, and signatures of small blocks one by one in kernels. The
z_i are drawn after all inputs are copied and never leave this module, because someone who knew them
beforehand could make invalid signatures whose errors cancel.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import numpy as np

from quod.curve.array import widened_scalars
from quod.curve.edwards.affine import edwards_group
from quod.curve.edwards.decompression import decompress
from quod.curve.edwards.operations import (
    add,
    from_edwards_points,
    multiply,
    to_edwards_points,
)
from quod.curve.named.jubjub import JUBJUB
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words
from quod.frozen import frozen
from quod.groth16.batch_verification import Verdict
from quod.msm.edwards import edwards_msm
from quod.validation import exact_bytes, flag, in_order, instance
from quod.zcash.signatures.redjubjub import (
    SIGNATURE_BYTES,
    RedJubjub,
    r_encoding,
    s_of_signature,
)
from quod.zcash.statement_fields import decode_point

_ORDER = JUBJUB.fr.value
_COEFFICIENT_BYTES = 16
# A failing block of at most this size is verified one by one, with two multiples in a launch each.
_SMALL_BLOCK = 128
_VALID, _INVALID = Verdict(True, None), Verdict(False, None)


@frozen
class SignatureClaim:
    """The claim that a signature is valid.

    scheme: `spend_auth_scheme(...)` or `binding_scheme(...)`.
    key: the encoding of the verification key, 32 bytes.
    message: bytes, in transactions the sighash.
    signature: 64 bytes.
    """

    scheme: RedJubjub
    key: bytes
    message: bytes
    signature: bytes


def verify_signatures(
    claims: Iterable[SignatureClaim], device: DeviceChoice = "cpu", *, zip216: bool = True
) -> list[Verdict]:
    """Verify signatures as one batch; return a `quod.groth16.Verdict` for each, in order.

    device: where points are decoded and summed.
    zip216: see `RedJubjub.verify`.
    The error of a malformed signature or key is in its verdict; the others are verified.
    """
    flag("zip216", zip216)
    verdicts: dict[int, Verdict] = {}
    members: list[_Member] = []
    for index, claim in enumerate(in_order("the claims", claims)):
        if not isinstance(claim, SignatureClaim):
            raise InputError(f"claim {index} must be a SignatureClaim")
        instance(f"the scheme of claim {index}", claim.scheme, RedJubjub, "such as SPEND_AUTH")
        try:
            members.append(_Member.of(index, claim, zip216=zip216))
        except InputError as error:
            verdicts[index] = Verdict(False, error)
    batch = _Batch(resolve_device(device), members)
    verdicts |= batch.verdicts()
    return [verdicts[index] for index in range(len(verdicts))]


@frozen
class _Member:
    """A claim whose bytes have the right sizes and whose S is below the order.

    r, key: encodings of points.
    s, challenge: scalars.
    """

    index: int
    scheme: RedJubjub
    r: bytes
    key: bytes
    s: int
    challenge: int

    @classmethod
    def of(cls, index: int, claim: SignatureClaim, *, zip216: bool) -> _Member:
        key = exact_bytes("the verification key", claim.key, 32)
        signature = exact_bytes("the signature", claim.signature, SIGNATURE_BYTES)
        s = s_of_signature(signature)
        challenge = claim.scheme.challenge(signature[:32], key, claim.message)
        r = r_encoding(signature, zip216=zip216)
        return cls(index, claim.scheme, r, key, s, challenge)


class _Batch:
    """Signatures whose points are decoded and summed on one device."""

    def __init__(self, device: AnyDevice, members: Sequence[_Member]) -> None:
        self._device = device
        self._members = list(members)

    def verdicts(self) -> dict[int, Verdict]:
        """Return the verdicts on the members, by index of the claim."""
        verdicts = self._decode()
        invalid = self._invalid(range(len(self._members)))
        return verdicts | {
            member.index: _INVALID if position in invalid else _VALID
            for position, member in enumerate(self._members)
        }

    def _decode(self) -> dict[int, Verdict]:
        """Decode the points, and remove members with a malformed point; return their verdicts."""
        members, count = self._members, len(self._members)
        encodings = [member.r for member in members] + [member.key for member in members]
        decoded = decompress(self._device, JUBJUB, encodings)
        is_valid = decoded.is_canonical[:count] & decoded.is_canonical[count:]
        verdicts = {}
        for position in np.flatnonzero(~is_valid):
            member = members[position]
            verdicts[member.index] = Verdict(False, _decoding_error(member))
        self._members = [member for member, keep in zip(members, is_valid, strict=True) if keep]
        self._r = decoded.points[:count][is_valid]
        self._keys = decoded.points[count:][is_valid]
        return verdicts

    def _invalid(self, block: range) -> set[int]:
        """Return the positions of the invalid signatures of a block."""
        if not block or self._holds(block):
            return set()
        if len(block) <= _SMALL_BLOCK:
            return self._invalid_singles(block)
        middle = block.start + len(block) // 2
        halves = (range(block.start, middle), range(middle, block.stop))
        return self._invalid(halves[0]) | self._invalid(halves[1])

    def _holds(self, block: range) -> bool:
        """Test the equation of a block with new coefficients."""
        coefficients = _coefficients(len(block))
        weighted_s: dict[RedJubjub, int] = {}
        weighted_challenges = []
        for position, z in zip(block, coefficients, strict=True):
            member = self._members[position]
            weighted_s[member.scheme] = weighted_s.get(member.scheme, 0) + z * member.s
            weighted_challenges.append(z * member.challenge % _ORDER)
        scalars = [*coefficients, *weighted_challenges]
        scalars += [-total % _ORDER for total in weighted_s.values()]
        generators = from_edwards_points(JUBJUB, [scheme.generator for scheme in weighted_s])
        part = slice(block.start, block.stop)
        points = np.concatenate([self._r[part], self._keys[part], generators])
        total = edwards_msm(self._device, JUBJUB, points, _scalar_words(scalars))
        return edwards_group(JUBJUB).has_small_order(total)

    def _invalid_singles(self, block: range) -> set[int]:
        """Return the positions of the invalid signatures of a block, each tested on its own."""
        members = [self._members[position] for position in block]
        part = slice(block.start, block.stop)
        generators = from_edwards_points(JUBJUB, [member.scheme.generator for member in members])
        factors = [member.challenge for member in members]
        factors += [-member.s % _ORDER for member in members]
        points = np.concatenate([self._keys[part], generators])
        products = multiply(
            self._device, JUBJUB, points, widened_scalars(_scalar_words(factors), len(points))
        )
        count, device = len(members), self._device
        differences = add(device, JUBJUB, self._r[part], products[:count])
        differences = add(device, JUBJUB, differences, products[count:])
        group = edwards_group(JUBJUB)
        return {
            position
            for position, point in zip(block, to_edwards_points(JUBJUB, differences), strict=True)
            if not group.has_small_order(point)
        }


def _decoding_error(member: _Member) -> InputError:
    """Return the error of the decoder of single points for a member with a malformed point."""
    for name, data in (("the verification key", member.key), ("R of the signature", member.r)):
        try:
            decode_point(name, data)
        except InputError as error:
            return error
    raise AssertionError("the kernel refused points that the decoder of single points accepts")


def _coefficients(count: int) -> list[int]:
    """Draw `count` random numbers of 128 bits, none of which is 0."""
    return [1 + secrets.randbelow((1 << 8 * _COEFFICIENT_BYTES) - 1) for _ in range(count)]


def _scalar_words(scalars: Sequence[int]) -> Words:
    data = b"".join(scalar.to_bytes(32, "little") for scalar in scalars)
    return np.frombuffer(data, "<u4").astype(np.uint32).reshape(len(scalars), 8)
