"""Tables with claims about them, and what a scheme says of these."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from quod.commitment import Claim, Scheme
from quod.device.protocol import AnyDevice
from quod.field import EXTENSIONS, NAMED, Extension, FieldSpec, Modulus, from_integers
from quod.transcript import Label, ProofReader, ProofWriter, Transcript
from tests.reference import ligero as reference

TOY_17, TOY_31 = Modulus("toy.17", 17), Modulus("toy.31", 31)
FIELDS: dict[str, FieldSpec] = {
    **{name: EXTENSIONS[name] for name in ("m31.4", "m31.3", "goldilocks.2", "baby_bear.4")},
    "goldilocks": NAMED["goldilocks"],
    "toy.17.4": Extension.binomial("toy.17.4", TOY_17, 4, 3),
    "toy.31.2": Extension.binomial("toy.31.2", TOY_31, 2, 3),
}
MAX_LOG_LENGTH = {"m31": 30, "goldilocks": 32, "baby_bear": 27, "toy.17": 4, "toy.31": 4}


class Statement(NamedTuple):
    """A table of 2**variables integers and claims about it."""

    field: FieldSpec
    variables: int
    table: list[int]
    claims: list[Claim]


def statement(field: FieldSpec, variables: int, claims: int, seed: int = 1) -> Statement:
    """A table with hostile entries among others, and true claims."""
    generator, p = random.Random(seed + variables), field.modulus.value
    table = [generator.choice([0, 1, p - 1, generator.randrange(p)]) for _ in range(1 << variables)]
    openings = []
    for number in range(claims):
        point = [
            tuple(generator.randrange(p) for _ in range(field.degree)) for _ in range(variables)
        ]
        if number == 1 and point:
            point[0] = (0,) * field.degree
        openings.append(Claim(tuple(point), reference.value(field, table, point)))
    return Statement(field, variables, table, openings)


def begun(name: bytes = b"test") -> Transcript:
    """A transcript that is not empty."""
    transcript = Transcript()
    transcript.absorb(Label.PROTOCOL, name)
    return transcript


def prove(scheme: Scheme, device: AnyDevice, instance: Statement) -> tuple[bytes, bytes]:
    """The proof, and the state after it."""
    writer = ProofWriter(begun())
    committer = scheme.committer(device, instance.field, instance.variables, allow_bits=0)
    committer.commit(device.upload(from_integers(instance.field.modulus, instance.table)), writer)
    committer.open(instance.claims, writer)
    return writer.getvalue(), writer.transcript.state


def verify(
    scheme: Scheme, instance: Statement, proof: bytes, *, transcript: Transcript | None = None
) -> bytes:
    """The state after a proof that is accepted."""
    reader = ProofReader(proof, transcript or begun())
    scheme.read(reader, instance.field, instance.variables, allow_bits=0).check(
        instance.claims, reader
    )
    reader.end()
    return reader.transcript.state


def model(instance: Statement, **parameters: Any) -> reference.Ligero:
    """The plain prover of the statement's table."""
    most = MAX_LOG_LENGTH[instance.field.modulus.name]
    return reference.Ligero(instance.field, instance.table, most, **parameters)


def plain(instance: Statement) -> list[tuple[list[tuple[int, ...]], tuple[int, ...]]]:
    """The claims as the model takes them."""
    return [(list(claim.point), claim.value) for claim in instance.claims]


def zero_claim(field: FieldSpec, variables: int) -> Claim:
    """Return the claim that a polynomial is 0 at the origin."""
    zero = (0,) * field.degree
    return Claim((zero,) * variables, zero)
