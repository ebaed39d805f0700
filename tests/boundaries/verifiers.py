"""Statements, transcripts, commitments and proofs: all that a verifier reads, and provers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from quod import commitment, field, gkr, inference, lookup, sumcheck, transcript
from quod import layered as circuit
from quod.field import NAMED, from_integers
from quod.inference.files.proof import ProofFile
from tests.boundaries.row import DATA, DEVICE, G1, GENERATOR, MODULUS, VECTOR, Row, row
from tests.support.bound_transcripts import bound

HASH, LABEL = transcript.Hash.SHA_256, transcript.Label.CLAIM


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of every protocol."""
    yield from _transcripts()
    yield from _commitments()
    yield from _sumchecks()
    yield from _lookups()
    yield from _gkr()
    yield from _inference()


def _transcripts() -> Iterator[tuple[str, Row]]:
    talk = transcript.Transcript()
    talk.absorb(transcript.Label.PROTOCOL, b"x")
    elements: dict[str, Any] = {"label": LABEL, "field": MODULUS, "elements": [(1,)]}
    yield "Transcript", row(
        transcript.Transcript, state=bytes(32), drawn=False, bound=False, hash=HASH, recursive=False
    )  # fmt: skip
    yield "absorb_table", row(talk.absorb_table, field=MODULUS, table=VECTOR)
    yield "begin", row(talk.begin, {"protocol": "text"}, protocol="test 1")
    yield "digest", row(HASH.digest, data=b"")
    yield "digest_by_runs", row(HASH.digest_by_runs, data=b"", level=0)
    yield "absorb", row(talk.absorb, label=LABEL, message=b"")
    yield "absorb_digest", row(talk.absorb_digest, label=LABEL, field=MODULUS, data=b"", before=b"")
    yield "absorb_digested", row(talk.absorb_digested, label=LABEL, digest=b"", before=b"")
    yield "absorb_elements", row(talk.absorb_elements, **elements)
    yield "challenges", row(talk.challenges, field=MODULUS, count=1)
    writer = transcript.ProofWriter(talk)
    yield "write elements", row(writer.elements, **elements)
    yield "write points", row(
        writer.points, {"points": "a list"}, label=LABEL, group=G1, points=[GENERATOR]
    )  # fmt: skip
    yield "write a message", row(writer.message, label=LABEL, message=b"")
    reader = transcript.ProofReader(bytes(32), transcript.Transcript())
    yield "ProofReader", row(transcript.ProofReader, proof=b"", transcript=talk)
    yield "read elements", row(reader.elements, label=LABEL, field=MODULUS, count=1)
    yield "read points", row(
        transcript.ProofReader(bytes(31) + b"\x40", transcript.Transcript()).points, label=LABEL,
        group=G1, count=1,
    )  # fmt: skip
    yield "read a message", row(reader.message, label=LABEL, size=1)


def _commitments() -> Iterator[tuple[str, Row]]:
    of_tau = commitment.ReferenceString.of_tau
    string = of_tau(5, 1, insecure=True)
    yield "of_tau", row(of_tau, {"tau": "huge"}, tau=5, log2_size=1, insecure=True)
    yield "from_ptau", row(
        commitment.ReferenceString.from_ptau, path=DATA / "powers.ptau", log2_size=1, device=DEVICE,
        insecure=True,
    )  # fmt: skip
    yield "of_verifier", row(
        commitment.ReferenceString.of_verifier, tau_g1=string.tau_g1[1:], tau_g2=string.tau_g2,
        insecure=True,
    )  # fmt: skip
    yield "Ligero", row(commitment.Ligero, log_blowup=2, column_bits=110)
    yield "Ligero.shape", row(commitment.Ligero().shape, field=NAMED["m31"], log2_size=1)
    for scheme in (commitment.Raw(), commitment.Hyrax(), commitment.HyperKzg(string)):
        yield from _scheme(scheme, MODULUS)
    yield from _scheme(commitment.Ligero(), NAMED["goldilocks"])


def _scheme(scheme: commitment.Scheme, modulus: field.Modulus) -> Iterator[tuple[str, Row]]:
    """One scheme, about the constant 1."""
    size: dict[str, Any] = {"field": modulus, "log2_size": 1}
    committer = scheme.committer(DEVICE, modulus, 1, allow_bits=0)
    table = DEVICE.upload(from_integers(modulus, [1, 1]))

    def writer() -> transcript.ProofWriter:
        return transcript.ProofWriter(bound())

    written = writer()
    name = scheme.name
    yield f"{name} error_terms", row(scheme.error_terms, **size)
    yield f"{name} committer", row(scheme.committer, device=DEVICE, **size, allow_bits=0)
    yield f"{name} commit", row(committer.commit, table=table, writer=writer())
    committer.commit(table, written)
    reader = transcript.ProofReader(written.getvalue(), writer().transcript)
    yield f"{name} read", row(scheme.read, reader=reader, **size, allow_bits=0)


def _sumchecks() -> Iterator[tuple[str, Row]]:
    product = sumcheck.SumOfProducts.product(1)
    size: dict[str, Any] = {
        "field": MODULUS, "polynomial": product, "variables": 1, "claim": (3,)
    }  # fmt: skip
    statement = sumcheck.Statement(**size)
    yield "SumOfProducts", row(sumcheck.SumOfProducts, terms=((1, (0,)),))
    yield "product", row(sumcheck.SumOfProducts.product, count=2)
    yield "sumcheck, Statement", row(sumcheck.Statement, **size, point=None)
    yield "sumcheck, prove", row(
        partial(sumcheck.prove, polynomial=product), device=DEVICE, field=MODULUS,
        tables=[VECTOR], point=None, transcript=bound(), allow_bits=0,
    )  # fmt: skip
    yield "sumcheck, verify", row(
        sumcheck.verify, statement=statement, proof=b"", transcript=bound(), allow_bits=0
    )  # fmt: skip
    yield "SumcheckPlan", row(
        partial(sumcheck.SumcheckPlan, shape=sumcheck.Shape(MODULUS, product, 0, False)),
        device=DEVICE, log2_size=3, batch=1, log_capacity=None, depth=None,
    )  # fmt: skip
    yield "Shape", row(
        partial(sumcheck.Shape, MODULUS, product, has_point=False), in_base=0
    )  # fmt: skip


def _lookups() -> Iterator[tuple[str, Row]]:
    table, scheme = lookup.Range(2), commitment.Raw()
    columns: dict[str, Any] = {
        "device": DEVICE, "field": MODULUS, "columns": [VECTOR], "table": VECTOR
    }  # fmt: skip
    committed: dict[str, Any] = {
        "scheme": scheme, "hash": HASH, "recursive": False, "allow_bits": 0
    }  # fmt: skip
    statement = lookup.Statement(MODULUS, 1, 1, table)
    yield "Range", row(lookup.Range, bits=2)
    yield "Table", row(lookup.Table, log2_size=2, width=1)
    yield "lookup, Statement", row(
        lookup.Statement, field=MODULUS, columns=1, log2_size=1, table=table
    )  # fmt: skip
    yield "multiplicities", row(lookup.multiplicities, **columns)
    yield "lookup, prove", row(
        lookup.prove, **columns, multiplicities=lookup.multiplicities(**columns),
        transcript=bound(), allow_bits=0,
    )  # fmt: skip
    yield "lookup, verify", row(
        lookup.verify, statement=statement, proof=b"", transcript=bound(), allow_bits=0
    )  # fmt: skip
    yield "prove_committed", row(lookup.prove_committed, **columns, **committed)
    yield "verify_committed", row(
        lookup.verify_committed, statement=statement, proof=b"", table=None, **committed
    )  # fmt: skip


def _gkr() -> Iterator[tuple[str, Row]]:
    builder = circuit.CircuitBuilder(MODULUS, 1)
    layer = builder.layer(1)
    layer.add(0, 0)
    layered = builder.finished()
    key = gkr.VerifyingKey.of(layered, MODULUS)
    yield "CircuitBuilder", row(circuit.CircuitBuilder, field=MODULUS, log_inputs=1)
    yield "layer", row(circuit.CircuitBuilder(MODULUS, 1).layer, log_size=1)
    yield "Public", row(circuit.Public, number=0)
    yield "Random", row(circuit.Random, number=0)
    yield "LayeredCircuit", row(
        partial(
            circuit.LayeredCircuit, coefficients=layered.coefficients, layers=layered.layers
        ), field=MODULUS, log_inputs=1, public=0, zeros=None,
    )  # fmt: skip
    yield "evaluate", row(layered.evaluate, inputs=[1, 2], public=[])
    yield "VerifyingKey.of", row(
        gkr.VerifyingKey.of, circuit=layered, field=MODULUS, allow_bits=100,
        recursive=False, reduction=gkr.Reduction.DATA_PARALLEL,
    )  # fmt: skip
    batch: dict[str, Any] = {
        "device": DEVICE, "key": key, "circuit": layered, "instances": 1, "batch": 1,
        "allow_bits": 0,
    }  # fmt: skip
    yield "Prover", row(gkr.Prover, **batch, in_progress=1)
    prover, verifier = gkr.Prover(DEVICE, key, layered), gkr.Verifier(DEVICE, key, layered)
    yield "Prover.prove", row(prover.prove, inputs=[0, 0], public=[])
    yield "Verifier", row(gkr.Verifier, **batch)
    proof = prover.prove([0, 0], [])
    yield "Verifier.verify", row(verifier.verify, public=[], proof=proof)
    for check in (verifier.verify_many, verifier.errors):
        yield f"Verifier.{check.__name__}", row(check, publics=[[]], proofs=[proof])
    yield "gkr, verify", row(
        gkr.verify, key=key, circuit=layered, public=[], proof=b"", instances=1, allow_bits=0
    )  # fmt: skip
    for function in (gkr.error_terms, gkr.security_bits):
        yield f"gkr, {function.__name__}", row(
            function, circuit=layered, field=MODULUS, instances=1, hash=HASH,
            reduction=gkr.Reduction.DATA_PARALLEL,
        )  # fmt: skip


def _inference() -> Iterator[tuple[str, Row]]:
    hidden = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), np.ones(2, int))
    last = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), None)
    perceptron = inference.Perceptron((hidden, last))
    images, logits = np.ones((1, 2), int), np.zeros((1, 2), int)
    prover = inference.Prover(DEVICE, perceptron)
    key = prover.key
    yield "Perceptron", row(inference.Perceptron, layers=(hidden, last))
    yield "run", row(partial(inference.run, perceptron=perceptron), device=DEVICE, images=images)
    yield "inference, Prover", row(
        partial(inference.Prover, perceptron=perceptron), device=DEVICE, allow_bits=0
    )  # fmt: skip
    yield "inference, prove", row(prover.prove, images=images)
    yield "inference, error_terms", row(
        inference.error_terms, {"images": "huge"}, key=key, images=1
    )  # fmt: skip
    yield "inference, verify", row(
        inference.verify, key=key, images=images, logits=logits, proof=b"", allow_bits=0
    )  # fmt: skip
    yield "inference, VerifyingKey", row(
        inference.VerifyingKey, widths=key.widths, table_bits=key.table_bits, biases=key.biases,
        multipliers=key.multipliers, root=key.root, weights_proof=key.weights_proof,
        field=key.field,
    )  # fmt: skip
    yield "check_weights", row(key.check_weights, allow_bits=0)
    yield "ProofFile.check", row(
        ProofFile("proof", key.digest, logits, b"").check, key=key, images=1
    )  # fmt: skip
