"""Tables over BN254's scalars with claims about them, true and false, for schemes in its G1."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from quod.commitment import Claim, Scheme
from quod.device.protocol import AnyDevice
from quod.errors import InputError, VerificationError
from quod.field import NAMED, from_integers
from quod.transcript import Label, ProofReader, ProofWriter, Transcript
from tests.reference import hyrax as reference

FIELD = NAMED["bn254.fr"]
R = FIELD.value


class Statement(NamedTuple):
    """A table of 2**variables integers and claims about it."""

    variables: int
    table: list[int]
    claims: list[Claim]

    @property
    def plain(self) -> list[tuple[list[int], int]]:
        """Claims as the models take them."""
        return [([c for (c,) in claim.point], claim.value[0]) for claim in self.claims]


def statement(variables: int, claims: int, seed: int = 1) -> Statement:
    """A table with hostile entries among others, its first half zeros where there are enough."""
    generator = random.Random(seed + variables)
    table = [generator.choice([0, 1, R - 1, generator.randrange(R)]) for _ in range(1 << variables)]
    if variables >= 3:
        table[: len(table) // 2] = [0] * (len(table) // 2)
    return Statement(variables, table, list(true_claims(table, variables, claims, generator)))


def true_claims(
    table: list[int], variables: int, count: int, generator: random.Random
) -> Iterator[Claim]:
    for number in range(count):
        point = [generator.randrange(R) for _ in range(variables)]
        if number == 1:
            point[0] = 0
        yield Claim(tuple((w,) for w in point), (reference.value(table, point),))


def begun() -> Transcript:
    transcript = Transcript()
    transcript.absorb(Label.PROTOCOL, b"test")
    return transcript


def prove(scheme: Scheme, device: AnyDevice, instance: Statement) -> tuple[bytes, bytes]:
    """The proof, and the state after it."""
    writer = ProofWriter(begun())
    committer = scheme.committer(device, FIELD, instance.variables, allow_bits=0)
    committer.commit(device.upload(from_integers(FIELD, instance.table)), writer)
    committer.open(instance.claims, writer)
    return writer.getvalue(), writer.transcript.state


def verify(scheme: Scheme, variables: int, claims: list[Claim], proof: bytes) -> bytes:
    """The state after a proof that is accepted."""
    reader = ProofReader(proof, begun())
    scheme.read(reader, FIELD, variables, allow_bits=0).check(claims, reader)
    reader.end()
    return reader.transcript.state


Model = Callable[[reference.Prover, Statement], None]


def agrees(scheme: Scheme, device: AnyDevice, instance: Statement, model: Model) -> None:
    """The device's bytes are the model's, and the verifier takes them."""
    prover = reference.Prover(begun())
    model(prover, instance)
    proof, state = prove(scheme, device, instance)
    assert proof == prover.sent
    assert state == prover.transcript.state
    assert verify(scheme, instance.variables, instance.claims, proof) == state


def refused(
    scheme: Scheme, variables: int, claims: list[Claim], proof: bytes, *errors: type[Exception]
) -> None:
    with pytest.raises(errors or (VerificationError, InputError)):
        verify(scheme, variables, claims, proof)


def check_hostile_bytes(scheme: Scheme, instance: Statement, proof: bytes, every: int = 1) -> None:
    """A bit of each byte, each end, and other encodings of the same numbers.

    A proof is points and elements, of 32 bytes each.
    """
    for place in range(0, len(proof), every):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        refused(scheme, instance.variables, instance.claims, bytes(changed))
    for wrong in (proof[:-1], proof + b"\0", b"", proof[32:], proof * 2, proof[:32]):
        refused(scheme, instance.variables, instance.claims, wrong)
    q = reference.Q
    numbers = 0
    for place in range(0, len(proof), 32):
        number = int.from_bytes(proof[place : place + 32], "little")
        for modulus in (R, q):
            again = number + modulus
            if again < 1 << 256:
                other = proof[:place] + again.to_bytes(32, "little") + proof[place + 32 :]
                refused(scheme, instance.variables, instance.claims, other)
                numbers += 1
    assert numbers > len(proof) // 32
    ends = range(0, len(proof), 32)
    for place in ends:
        for chunk in (bytes(31) + b"\x40", bytes(32), (4).to_bytes(32, "little"), b"\xff" * 32):
            if proof[place : place + 32] != chunk:
                other = proof[:place] + chunk + proof[place + 32 :]
                refused(scheme, instance.variables, instance.claims, other)


def check_other_claims(scheme: Scheme, instance: Statement, proof: bytes) -> None:
    """Each number of each claim, fewer and more claims, and their order."""
    for wrong in other_claims(instance.claims):
        refused(scheme, instance.variables, wrong, proof)


def other_claims(claims: list[Claim]) -> Iterable[list[Claim]]:
    for place, claim in enumerate(claims):
        false: list[Any] = [Claim(claim.point, ((claim.value[0] + 1) % R,))]
        for at, (w,) in enumerate(claim.point):
            point = (*claim.point[:at], ((w + 1) % R,), *claim.point[at + 1 :])
            false.append(Claim(point, claim.value))
        for other in false:
            yield [*claims[:place], other, *claims[place + 1 :]]
    yield [*claims, claims[0]]
    if len(claims) > 1:
        yield claims[1:]
        yield claims[::-1]
