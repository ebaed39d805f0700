"""Openings of commitments: a verifier must accept the original and reject every other form."""

from __future__ import annotations

from collections.abc import Callable

from quod.commitment import Claim, Hyrax, Ligero, Scheme
from quod.commitment.raw import evaluated
from quod.device import open_device
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.transcript import Label, ProofReader, ProofWriter, Transcript

_VARIABLES = 4

SCHEMES: dict[str, tuple[Scheme, FieldSpec]] = {
    "ligero-circle": (Ligero(column_bits=6), EXTENSIONS["m31.4"]),
    "ligero": (Ligero(1, column_bits=6), EXTENSIONS["goldilocks.2"]),
    "hyrax": (Hyrax(), NAMED["bn254.fr"]),
}


def _new_transcript() -> Transcript:
    transcript = Transcript()
    transcript.absorb(Label.PROTOCOL, b"fuzz")
    return transcript


def opening(scheme: Scheme, field: FieldSpec) -> tuple[bytes, Callable[[bytes], None]]:
    """Return a commitment with an opening of two claims, and a reader for mutated openings."""
    table = [number * number + 1 for number in range(1 << _VARIABLES)]
    points = [
        tuple(tuple(range(start + at, start + at + field.degree)) for at in range(_VARIABLES))
        for start in (2, 7)
    ]
    claims = [Claim(point, evaluated(field, table, point).coefficients) for point in points]
    device, writer = open_device("cpu"), ProofWriter(_new_transcript())
    committer = scheme.committer(device, field, _VARIABLES, allow_bits=0)
    committer.commit(device.upload(from_integers(field.modulus, table)), writer)
    committer.open(claims, writer)
    encoded = writer.getvalue()

    def read(data: bytes) -> None:
        reader = ProofReader(data, _new_transcript())
        scheme.read(reader, field, _VARIABLES, allow_bits=0).check(claims, reader)
        reader.end()
        assert data == encoded

    return encoded, read
