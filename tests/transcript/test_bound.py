"""Transcripts that bind no table are rejected wherever challenges depend on tables."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from quod import lookup, sumcheck
from quod.commitment import Claim, HyperKzg, Hyrax, Ligero, ReferenceString, Scheme
from quod.device import open_device
from quod.errors import InputError
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers, random_elements
from quod.transcript import Hash, Label, ProofReader, ProofWriter, Transcript
from tests.support.bound_transcripts import bound

FIELD = EXTENSIONS["m31.4"]
HASHES = [Hash.SHA3_256, Hash.POSEIDON2_M31]


def unbound(hash: Hash) -> list[Transcript]:
    """An empty transcript, one of names alone, and one with an empty public input."""
    empty, named, ranged = (
        Transcript(hash=hash, recursive=hash.is_algebraic) for _ in range(3)
    )  # fmt: skip
    named.begin("a test 1")
    named.absorb(Label.FIELD, b"31")
    named.absorb(Label.PARAMETERS, b"1")
    ranged.absorb(Label.PUBLIC_INPUT, b"")
    return [empty, named, ranged]


def refused(call: Any, *arguments: Any, **named: Any) -> None:
    with pytest.raises(InputError, match="binds no table"):
        call(*arguments, **named)


@pytest.mark.parametrize("hash", HASHES)
@pytest.mark.parametrize("number", range(3))
def test_sumchecks_and_lookups(hash: Hash, number: int) -> None:
    product = sumcheck.SumOfProducts.product(1)
    table = from_integers(FIELD.modulus, [1, 2, 3, 3])
    counts = lookup.multiplicities("cpu", FIELD, [table], lookup.Range(2))
    sums: dict[str, Any] = {"tables": [table], "transcript": unbound(hash)[number]}
    refused(sumcheck.prove, "cpu", FIELD, product, **sums)
    claim = (9, 0, 0, 0)
    statement = sumcheck.Statement(FIELD, product, 2, claim)
    refused(sumcheck.verify, statement, b"", transcript=unbound(hash)[number])
    looked_up = ("cpu", FIELD, [table], lookup.Range(2), counts)
    refused(lookup.prove, *looked_up, transcript=unbound(hash)[number])
    lookups = lookup.Statement(FIELD, 1, 2, lookup.Range(2))
    refused(lookup.verify, lookups, b"", transcript=unbound(hash)[number])


def test_the_transcript_has_no_default() -> None:
    for call in (sumcheck.prove, sumcheck.verify, lookup.prove, lookup.verify):
        parameter = inspect.signature(call).parameters["transcript"]
        assert parameter.default is inspect.Parameter.empty


@pytest.mark.parametrize(
    ("scheme", "field"),
    [
        (Ligero(), FIELD),
        (Hyrax(), NAMED["bn254.fr"]),
        (HyperKzg(ReferenceString.of_tau(5, 2, insecure=True)), NAMED["bn254.fr"]),
    ],
)
def test_openings(scheme: Scheme, field: FieldSpec) -> None:
    """The commitment was absorbed by another transcript."""
    device = open_device("cpu")
    committer, writer = scheme.committer(device, field, 2), ProofWriter(Transcript())
    committer.commit(device.upload(random_elements(field.modulus, 4, seed=1)), writer)
    claims = [Claim(((0,) * field.degree,) * 2, (0,) * field.degree)]
    commitment = scheme.read(ProofReader(writer.getvalue(), Transcript()), field, 2)
    for transcript in unbound(Hash.SHA3_256):
        refused(committer.open, claims, ProofWriter(transcript.copy()))
        refused(commitment.check, claims, ProofReader(b"", transcript.copy()))


@pytest.mark.parametrize("hash", HASHES)
def test_binding_messages(hash: Hash) -> None:
    table = from_integers(FIELD, [(1, 2, 3, 4), (5, 6, 7, 8)])
    states = set()
    for other in (table, table[::-1], from_integers(FIELD, [(1, 2, 3, 4), (5, 6, 7, 9)])):
        transcript = unbound(hash)[1]
        transcript.absorb_table(FIELD, other)
        transcript.check_bound()
        states.add(transcript.state)
    assert len(states) == 3
    for transcript in (bound(hash=hash), bound(hash=hash).copy()):
        transcript.absorb(Label.NEXT, b"")
        transcript.check_bound()
        transcript.resume(transcript.state)
        transcript.check_bound()
    public = unbound(hash)[0]
    public.absorb_digest(Label.PUBLIC_INPUT, FIELD.modulus, bytes(8))
    public.check_bound()


def test_states_of_unknown_messages() -> None:
    state = bytes(31) + b"\1"
    refused(Transcript(state).check_bound)
    Transcript(state, bound=True).check_bound()
    with pytest.raises(InputError, match="absorbed no message"):
        Transcript(bound=True)


@pytest.mark.parametrize("hash", HASHES)
def test_digests_of_nothing_bind_nothing(hash: Hash) -> None:
    for label in (Label.COMMITMENT, Label.PUBLIC_INPUT):
        transcript = unbound(hash)[0]
        transcript.absorb_digest(label, FIELD.modulus, b"", before=bytes(8))
        ProofReader(b"", transcript).digested_words(label, FIELD.modulus, 0)
        refused(transcript.check_bound)
        transcript.absorb(Label.COMMITMENT, b"a commitment")
        transcript.absorb_digest(label, FIELD.modulus, b"")
        transcript.check_bound()
    empty = from_integers(FIELD, [(1, 2, 3, 4)])[:0]
    with pytest.raises(InputError, match="a digest of no elements binds nothing"):
        unbound(hash)[0].absorb_table(FIELD, empty)
