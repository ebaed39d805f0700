"""Reduction of several claims about one polynomial to one, by a sumcheck.

Claims (z, v), (z', v'), ... are proved by the sum over the hypercube of V(x) * W(x) with
W(x) = eq(z, x) + a' * eq(z', x) + .... It equals v + a' * v' + ... for all a' only if all claims
hold. The sumcheck leaves a claim about V at one point.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.commitment.scheme import Claim, check_claims
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import VerificationError
from quod.field.any_field import field_arithmetic
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, kernel
from quod.sumcheck.eq_reference import equalities, equality
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import SumcheckRun, elements_to_words
from quod.sumcheck.shape import Shape
from quod.sumcheck.verifier import read_rounds
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter
from quod.transcript.transcript import Transcript


@kernel
def weigh_corners(
    k: Builder,
    n: U32,
    log_low: U32,
    log_high: U32,
    claims: U32,
    lows: Pointer[U32],
    highs: Pointer[U32],
    weights: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Set weights[x] to the sum over claims of high factor * low factor at x, for x below n."""
    f, x = field_arithmetic(k, field), k.global_id()
    with k.if_(x < n):
        high = x >> log_low
        low = x - (high << log_low)
        with k.range(0, claims, carry=f.bounded(f.zero())) as loop:
            high_factor = f.load(highs, (loop.index << log_high) + high)
            low_factor = f.load(lows, (loop.index << log_low) + low)
            loop.next(f.bounded(loop.carried + high_factor * low_factor))
        f.store(weights, x, loop.results)


def prove_reduction(
    device: AnyDevice, field: FieldSpec, log2_size: int, table: Buffer,
    claims: Sequence[Claim], writer: ProofWriter,
) -> Claim:  # fmt: skip
    """Prove the reduction of claims about a table over a prime field; return the claim left.

    All claims are absorbed; a single claim needs no message.
    """
    factors = _absorb_claims(field, check_claims(field, log2_size, claims), writer.transcript)
    if len(claims) == 1:
        return claims[0]
    log_low = log2_size // 2
    log_high = log2_size - log_low
    lows: list[Plain] = []
    highs: list[Plain] = []
    for factor, claim in zip(factors, claims, strict=True):
        weights = equalities(field, claim.point[:log_high])
        highs += coefficients_of([factor * weight for weight in weights])
        lows += coefficients_of(equalities(field, claim.point[log_high:]))
    shape = Shape(
        field, SumOfProducts.product(2), in_base=0, has_point=False, hash=writer.transcript.hash
    )
    run = SumcheckRun(device, shape, log2_size)
    run.set_table(0, table)
    recording = device.stream("claims").record()
    kernel = device.compile(weigh_corners, field=field)
    recording.launch(
        kernel, -(-(1 << log2_size) // kernel.lanes), 1 << log2_size, log_low, log_high,
        len(claims), *(device.upload(elements_to_words(field, e)) for e in (lows, highs)),
        run.table(1), label="claims",
    )  # fmt: skip
    recording.finish().run()
    total = _sum(field, factors, claims)
    rounds = run.prove(total.coefficients, writer.transcript.state, timeline=None)
    writer.resume_after(rounds.messages, rounds.state)
    writer.elements(Label.VALUES, field, rounds.values[:1])
    return Claim(tuple(rounds.challenges), rounds.values[0])


def verify_reduction(
    field: FieldSpec, log2_size: int, claims: Sequence[Claim], reader: ProofReader
) -> Claim:
    """Verify the reduction and return the claim left; VerificationError if it does not hold."""
    claims = check_claims(field, log2_size, claims)
    factors = _absorb_claims(field, claims, reader.transcript)
    if len(claims) == 1:
        return claims[0]
    last_claim, point = read_rounds(
        reader, field, degree=2, variables=log2_size, claim=_sum(field, factors, claims)
    )
    (value,) = reader.elements(Label.VALUES, field, 1)
    weight = PlainElement.zero(field)
    for factor, claim in zip(factors, claims, strict=True):
        weight += factor * equality(field, claim.point, point)
    if weight * PlainElement(field, value) != last_claim:
        raise VerificationError("the committed table has a different value at a point")
    return Claim(tuple(point), value)


def _absorb_claims(
    field: FieldSpec, claims: Sequence[Claim], transcript: Transcript
) -> list[PlainElement]:
    """Absorb claims, and draw a factor for each except the first, whose factor is 1.

    InputError for a transcript that binds no table (`Transcript.check_bound`).
    """
    transcript.check_bound()
    for claim in claims:
        transcript.absorb_elements(Label.POINT, field, claim.point)
        transcript.absorb_elements(Label.CLAIM, field, [claim.value])
    challenges = transcript.challenges(field, len(claims) - 1)
    return [PlainElement.one(field), *PlainElement.from_coefficients(field, challenges)]


def _sum(
    field: FieldSpec, factors: Sequence[PlainElement], claims: Sequence[Claim]
) -> PlainElement:
    total = PlainElement.zero(field)
    for factor, claim in zip(factors, claims, strict=True):
        total += factor * PlainElement(field, claim.value)
    return total
