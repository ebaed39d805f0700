"""HyperKZG: commitments of one point, and short openings, with a reference string.

The commitment is that of Kate, Zaverucha and Goldberg ("Constant-size commitments to polynomials
and their applications", ASIACRYPT 2010) to the univariate polynomial f_0 whose coefficients are the
table. The step from one variable to many is that of Bootle, Chiesa, Hu and Orru ("Gemini",
EUROCRYPT 2022, section 5). Let f_i(X) = even_i(X^2) + X * odd_i(X^2). With x the coordinate of a
variable, the last variable first, the fold is f_(i+1) = (1 - x) * even_i + x * odd_i. The prover
commits to all folds except the last, and opens f_0 and these folds at r, -r and r^2 with one
quotient. The last fold is a constant: the table's value at the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from quod.commitment.claim_reduction import verify_reduction
from quod.commitment.hyperkzg_prover import HyperKzgCommitter
from quod.commitment.reference_string import ReferenceString
from quod.commitment.scalars import GROUP, checked_log2_size, combined_errors, sum_of_multiples
from quod.commitment.scheme import MAX_LOG2_SIZE, Claim, check_scheme_bits
from quod.commitment.three_points import drawn_point, folded_value, interpolated
from quod.curve.array import Point
from quod.curve.pairing.products import pairing_product_is_one
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import VerificationError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import MIN_BITS
from quod.transcript.elements import most_likely
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader

_CURVE = GROUP.curve


@frozen(eq=False)
class HyperKzg:
    """HyperKZG in BN254. **Not hiding.**

    A commitment is a point of G1. For a table in n variables, an opening has n points and 2n + 1
    elements. Tables are over BN254's scalars, with at most as many entries as the reference string
    has powers. The scheme is binding in the algebraic group model if nobody knows tau.
    """

    reference: ReferenceString

    name = "hyperkzg"

    def parameters(self) -> str:
        """Return the text that a statement absorbs: it names the reference string."""
        return f"hyperkzg bn254.g1 {self.reference.digest.hex()}"

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Return the probability that a false claim is accepted, by the failing step.

        A fold is checked by an identity in r that contains r * f_(i+1)(r^2). Its degree is at most
        twice the size of the largest table, plus 1.
        """
        log2_size, challenge_error = checked_log2_size(field, log2_size), most_likely(field)
        degree = 2 * (1 << MAX_LOG2_SIZE) + 1
        return {
            **combined_errors(field, log2_size),
            "folds at one point": log2_size * degree * challenge_error,
            "folds combined": (log2_size - 1) * challenge_error,
        }

    def committer(
        self, device: DeviceChoice, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> HyperKzgCommitter:  # fmt: skip
        """Upload the powers for a table to a device, and return a prover.

        Raises InputError if the reference string has too few powers.
        """
        check_scheme_bits(self, field, log2_size, allow_bits)
        return HyperKzgCommitter(
            resolve_device(device), checked_log2_size(field, log2_size), self.reference
        )

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> HyperKzgCommitment:  # fmt: skip
        """Read a commitment; raise InputError for malformed bytes."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        log2_size = checked_log2_size(field, log2_size)
        (point,) = reader.points(Label.COMMITMENT, GROUP, 1)
        return HyperKzgCommitment(field, log2_size, self.reference, point)


@frozen(eq=False)
class HyperKzgCommitment:
    """The commitment to a table."""

    field: FieldSpec
    log2_size: int
    reference: ReferenceString
    point: Point

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Verify an opening, with one product of three pairings; see `Commitment.check`."""
        field, n, p = self.field, self.log2_size, self.field.modulus.value
        claim = verify_reduction(field, n, claims, reader)
        folds = reader.points(Label.OPENING, GROUP, n - 1)
        r = drawn_point(reader.transcript, field)
        values = [value for (value,) in reader.elements(Label.VALUES, field, 2 * n + 1)]
        pairs = list(zip(values[: 2 * n : 2], values[1 : 2 * n : 2], strict=True))
        # The values of f_0 and of each fold at r^2.
        values_at_square = [values[2 * n]]
        for (x,), pair in zip(reversed(claim.point), pairs, strict=True):
            values_at_square.append(folded_value(p, r, x, pair))
        if values_at_square.pop() != claim.value[0]:
            raise VerificationError("the folds of the committed table end in a different value")
        (q,) = reader.transcript.challenge(field)
        (quotient,) = reader.points(Label.OPENING, GROUP, 1)
        factors = [pow(q, number, p) for number in range(n)]
        remainder = interpolated(
            p, r,
            *(
                sum(factor * value for factor, value in zip(factors, column, strict=True)) % p
                for column in (*zip(*pairs, strict=True), values_at_square)
            ),
        )  # fmt: skip
        if not self._holds(factors, [self.point, *folds], remainder, r * r % p, quotient):
            raise VerificationError("the values of the folds do not match their commitments")

    def _holds(
        self, factors: Sequence[int], points: Sequence[Point], remainder: Sequence[int], s: int,
        quotient: Point,
    ) -> bool:  # fmt: skip
        """Check by pairings: combination - `remainder` = quotient * (X^3 - s*X^2 - s*X + s^2).

        The combination is the sum of factors[i] * points[i], and s is r^2.
        """
        law, twist = g1_group(_CURVE), g2_group(_CURVE)
        tau_g2, tau_2_g2, tau_3_g2 = self.reference.tau_g2
        difference = sum_of_multiples(
            GROUP, [*points, *self.reference.tau_g1, quotient],
            [*factors, *(-c for c in remainder), -s * s],
        )  # fmt: skip
        return pairing_product_is_one(
            resolve_device("cpu"), _CURVE,
            [
                (difference, _CURVE.g2.generator),
                (law.multiply(s, quotient), twist.add(tau_2_g2, tau_g2)),
                (law.negate(quotient), tau_3_g2),
            ],
        )  # fmt: skip
