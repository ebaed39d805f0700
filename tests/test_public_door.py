"""Every public callable refuses wrong arguments with an error of ours: a new one joins by a row.

A row is a callable, arguments that are right, and the values of `WRONG` that are right, too. Each
argument in turn is each wrong value.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import quod
from quod import (
    circuit,
    commitment,
    curve,
    field,
    gkr,
    groth16,
    lookup,
    msm,
    ntt,
    sumcheck,
    transcript,
)
from quod.curve import CURVES
from quod.device import Event, open_device
from quod.device.timeline import Timeline
from quod.errors import QuodError
from quod.field import NAMED, from_integers, integers_to_words
from quod.service import client as service_client
from quod.service import keys as service_keys
from quod.service import queue as service_queue
from quod.service import witness as service_witness
from quod.service import worker as service_worker
from tests.circuit import doors
from tests.device import kernels
from tests.formats import doors as files

EXAMPLE = Path(__file__).parents[1] / "examples" / "membership"
POWERS = Path(__file__).parent / "data" / "formats" / "bn254" / "powers.ptau"
DEVICE = open_device("cpu")
QUEUE = tempfile.TemporaryDirectory(prefix="quod-door-")
MODULUS = NAMED["bn254.fr"]
G1 = curve.GROUPS["bn254.g1"]
GENERATOR = CURVES["bn254"].g1.generator
POINTS = curve.from_points(G1, [GENERATOR, None])
SCALARS = integers_to_words(MODULUS, [1, 2])
VECTOR = from_integers(MODULUS, [1, 2])


class Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __index__(self) -> int:
        raise ZeroDivisionError("asked for a number")


WRONG: dict[str, Any] = {
    "None": None, "a float": 2.5, "true": True, "negative": -1, "huge": 1 << 80, "text": "no such",
    "bytes": b"no such", "a list": [None], "a set": {1}, "a mapping": {}, "a class": int,
    "floats": np.zeros(2), "a mask": np.ma.masked_array(SCALARS, mask=True), "hostile": Hostile(),
    "an object": object(),
}  # fmt: skip


class Row(NamedTuple):
    """A callable with right arguments; `fine` are names of wrong values that an argument takes."""

    call: Callable[..., Any]
    right: dict[str, Any]
    fine: dict[str, tuple[str, ...]] = {}  # noqa: RUF012


OPTIONAL = ("None",)
ANY_INT = ("None", "negative", "huge")
MSM = {"device": DEVICE, "group": G1, "bases": POINTS, "scalars": SCALARS, "options": None}
MSM_FINE = {"options": OPTIONAL, "timeline": OPTIONAL}


def transform(log2_size: int = 1) -> ntt.NttPlan:
    return ntt.NttPlan(DEVICE, MODULUS, log2_size)


def recording() -> Any:
    return DEVICE.stream().record()


def rows_of_commitment(
    scheme: commitment.Scheme, modulus: field.Modulus
) -> Iterator[tuple[str, Row]]:
    """The calls of one scheme, about the constant 1."""
    name, size = scheme.name, {"field": modulus, "log2_size": 1}
    yield f"{name} error_terms", Row(scheme.error_terms, size)
    yield f"{name} committer", Row(scheme.committer, {"device": DEVICE, **size})
    committer = scheme.committer(DEVICE, modulus, 1)
    table, claims = DEVICE.upload(from_integers(modulus, [1, 1])), [commitment.Claim(((5,),), (1,))]

    def writer() -> transcript.ProofWriter:
        talk = transcript.Transcript()
        talk.absorb(transcript.Label.PROTOCOL, b"x")
        return transcript.ProofWriter(talk)

    written = writer()
    yield f"{name} commit", Row(committer.commit, {"table": table, "writer": writer()})
    committer.commit(table, written)
    yield f"{name} open", Row(committer.open, {"claims": claims, "writer": written})
    # What comes to the host beside other work is there when claims are opened.
    committer.open(claims, writer())
    proof = written.getvalue()

    def reader() -> transcript.ProofReader:
        return transcript.ProofReader(proof, writer().transcript)

    yield f"{name} read", Row(scheme.read, {"reader": reader(), **size})
    reading = reader()
    read = scheme.read(reading, modulus, 1)
    yield f"{name} check", Row(read.check, {"claims": claims, "reader": reading})


def rows_of_lookup() -> Iterator[tuple[str, Row]]:
    """Columns in a table, and in a range."""
    made = lookup.Statement(MODULUS, 1, 1, lookup.Range(2))
    yield "Range", Row(lookup.Range, {"bits": 2})
    yield "Table", Row(lookup.Table, {"log2_size": 2, "width": 1})
    own = {"field": MODULUS, "columns": 1, "log2_size": 1, "table": lookup.Range(2)}
    yield "lookup.Statement", Row(lookup.Statement, own)
    given = {"device": DEVICE, "field": MODULUS, "columns": [VECTOR], "table": VECTOR}
    counted = lookup.multiplicities(**given)
    yield "multiplicities", Row(lookup.multiplicities, given)
    yield "lookup.prove", Row(
        lookup.prove, {**given, "multiplicities": counted, "transcript": None, "timeline": None},
        {"transcript": OPTIONAL, "timeline": OPTIONAL},
    )  # fmt: skip
    yield "lookup.verify", Row(
        lookup.verify, {"statement": made, "proof": b"", "transcript": None},
        {"transcript": OPTIONAL},
    )  # fmt: skip
    scheme = commitment.Raw()
    by = transcript.Hash.SHA_256
    yield "prove_committed", Row(
        lookup.prove_committed,
        {**given, "scheme": scheme, "hash": by, "recursive": False, "timeline": None},
        {"timeline": OPTIONAL, "recursive": ("true",)},
    )  # fmt: skip
    yield "verify_committed", Row(
        lookup.verify_committed,
        {"statement": made, "proof": b"", "table": None, "scheme": scheme, "hash": by,
         "recursive": False},
        {"table": OPTIONAL, "recursive": ("true",)},
    )  # fmt: skip
    yield "lookup.error_terms", Row(lookup.error_terms, {"statement": made, "hash": by})


def rows() -> Iterator[tuple[str, Row]]:
    """The table."""
    buffer, array = DEVICE.allocate(64), np.zeros(16, np.uint32)
    kernel = DEVICE.compile(kernels.increment)
    yield "open_device", Row(
        open_device,
        {"name": "cpu", "threads": 1, "strategy": "scalar", "memory_budget": 9, "checked": False},
        {"threads": ("None", "huge"), "strategy": OPTIONAL, "memory_budget": ("None", "huge"),
         "checked": ("true",)},
    )  # fmt: skip
    yield "allocate", Row(DEVICE.allocate, {"nbytes": 8, "zero": True}, {"zero": ("true",)})
    yield "pinned", Row(DEVICE.pinned, {"nbytes": 8})
    yield "upload", Row(
        DEVICE.upload, {"array": array, "into": None},
        {"array": ("floats", "bytes"), "into": OPTIONAL},
    )  # fmt: skip
    yield "download", Row(DEVICE.download, {"buffer": buffer, "array": array})
    yield "compile", Row(
        DEVICE.compile, {"definition": kernels.increment, "lanes": 1, "given": 1},
        {"lanes": OPTIONAL},
    )  # fmt: skip
    yield "launch", Row(
        lambda kernel, groups, n, x: DEVICE.launch(kernel, groups, n, x),
        {"kernel": kernel, "groups": 0, "n": 0, "x": array}, {"n": ("true",)},
    )  # fmt: skip
    yield "record launch", Row(
        lambda kernel, groups, n, x: recording().launch(kernel, groups, n, x),
        {"kernel": kernel, "groups": 0, "n": 0, "x": array}, {"n": ("true",)},
    )  # fmt: skip
    yield "on", Row(kernels.increment.on, {"device": DEVICE, "lanes": 1}, {"lanes": OPTIONAL})
    yield "Buffer.slice", Row(buffer.slice, {"start": 0, "stop": 4})
    yield "Buffer.view", Row(
        buffer.view, {"dtype": np.uint8, "shape": (64,)},
        {"dtype": ("None", "a class"), "shape": ("None", "negative")},
    )  # fmt: skip
    yield "replay", Row(lambda given: DEVICE.stream().replay(given), {"given": None})
    yield "wait_for", Row(lambda event: recording().wait_for(event), {"event": Event("e")})
    yield "copy", Row(
        lambda a, b: recording().copy(a, b), {"a": buffer, "b": buffer},
    )  # fmt: skip
    yield (
        "fill",
        Row(lambda target, word: recording().fill(target, word), {"target": buffer, "word": 0}),
    )
    yield "submit", Row(
        lambda timeline: recording().finish().submit(timeline), {"timeline": Timeline()},
        {"timeline": OPTIONAL},
    )  # fmt: skip

    yield "ntt", Row(
        ntt.ntt,
        {"values": [1, 2], "modulus": MODULUS, "inverse": False, "family": "snarkjs", "root": None,
         "ordering": "NN", "coset": None, "batch": 1, "device": DEVICE},
        {"inverse": ("true",), "root": OPTIONAL, "coset": ANY_INT},
    )  # fmt: skip
    yield "NttPlan", Row(
        ntt.NttPlan,
        {"device": DEVICE, "modulus": MODULUS, "log2_size": 1, "family": "snarkjs", "root": None},
        {"root": OPTIONAL},
    )  # fmt: skip
    for name in ("forward", "inverse"):
        yield name, Row(
            getattr(transform(), name),
            {"data": VECTOR.copy(), "batch": 1, "ordering": "NN", "coset": None},
            {"coset": ANY_INT},
        )  # fmt: skip
    yield (
        "scaled",
        Row(transform().inverse, {"data": VECTOR.copy(), "scaled": True}, {"scaled": ("true",)}),
    )
    yield (
        "coset_quotient",
        Row(ntt.coset_quotient, {"plan": transform(), "evaluations": VECTOR, "out": VECTOR}),
    )
    yield "record_coset_quotient", Row(
        ntt.record_coset_quotient,
        {"recording": None, "plan": transform(), "evaluations": buffer, "out": buffer},
    )  # fmt: skip

    product, claim = sumcheck.SumOfProducts.product(1), (3,)
    yield "SumOfProducts", Row(sumcheck.SumOfProducts, {"terms": ((1, (0,)),)})
    yield "SumOfProducts.product", Row(sumcheck.SumOfProducts.product, {"count": 2})
    statement = {"field": MODULUS, "polynomial": product, "variables": 1, "claim": claim}
    yield "Statement", Row(
        sumcheck.Statement, {**statement, "point": None}, {"point": OPTIONAL}
    )  # fmt: skip
    yield "sumcheck.prove", Row(
        sumcheck.prove,
        {"device": DEVICE, "field": MODULUS, "polynomial": product, "tables": [VECTOR],
         "point": None, "transcript": None, "timeline": None},
        {"point": OPTIONAL, "transcript": OPTIONAL, "timeline": OPTIONAL},
    )  # fmt: skip
    yield "sumcheck.verify", Row(
        sumcheck.verify,
        {"statement": sumcheck.Statement(**statement), "proof": b"", "transcript": None},
        {"transcript": OPTIONAL},
    )  # fmt: skip
    plan = {"device": DEVICE, "shape": sumcheck.Shape(MODULUS, product, 0, False), "log2_size": 3}
    yield "SumcheckPlan", Row(
        sumcheck.SumcheckPlan,
        {**plan, "batch": 1, "log_capacity": None, "depth": None, "in_place": None},
        {"log_capacity": OPTIONAL, "depth": OPTIONAL, "in_place": ("None", "true")},
    )  # fmt: skip
    yield "Shape", Row(
        sumcheck.Shape,
        {"field": MODULUS, "polynomial": product, "in_base": 0, "has_point": False, "scales": (),
         "hash": transcript.Hash.SHA_256},
        {"has_point": ("true",), "scales": ("a list",)},
    )  # fmt: skip
    yield from rows_of_lookup()
    builder = circuit.CircuitBuilder(MODULUS, 1)
    yield "CircuitBuilder", Row(circuit.CircuitBuilder, {"field": MODULUS, "log_inputs": 1})
    layer = builder.layer(1)
    layer.add(0, 0)
    yield "layer", Row(builder.layer, {"log_size": 1})
    yield "Public", Row(circuit.Public, {"number": 0})
    yield "Random", Row(circuit.Random, {"number": 0})
    made = builder.finished()
    yield "LayeredCircuit", Row(
        circuit.LayeredCircuit,
        {"field": MODULUS, "log_inputs": 1, "coefficients": made.coefficients,
         "layers": made.layers, "public": 0, "zeros": None}, {"zeros": OPTIONAL},
    )  # fmt: skip
    yield from ((name, Row(*call)) for name, *call in doors.calls())
    yield from ((name, Row(*call)) for name, *call in files.calls())
    yield "LayeredCircuit.evaluate", Row(made.evaluate, {"inputs": [1, 2], "public": []})
    yield "VerifyingKey.of", Row(
        gkr.VerifyingKey.of,
        {"circuit": made, "field": MODULUS, "commitment": None, "allow_bits": 100,
         "hash": None, "recursive": False, "reduction": gkr.Reduction.COLUMNS},
        {"commitment": OPTIONAL, "hash": OPTIONAL, "recursive": ("true",)},
    )  # fmt: skip
    known = gkr.VerifyingKey.of(made, MODULUS)
    yield (
        "Prover",
        Row(
            gkr.Prover,
            {
                "device": DEVICE,
                "key": known,
                "circuit": made,
                "instances": 1,
                "batch": 1,
                "in_progress": 1,
            },
        ),
    )
    yield "Prover.prove", Row(
        gkr.Prover(DEVICE, known, made).prove,
        {"inputs": [0, 0], "public": [], "check": True, "timeline": None},
        {"timeline": OPTIONAL, "check": ("true",)},
    )  # fmt: skip
    yield (
        "Verifier",
        Row(
            gkr.Verifier,
            {"device": DEVICE, "key": known, "circuit": made, "instances": 1, "batch": 1},
        ),
    )
    verifier = gkr.Verifier(DEVICE, known, made)
    good = gkr.Prover(DEVICE, known, made).prove([0, 0], [])
    yield "Verifier.verify", Row(
        verifier.verify, {"public": [], "proof": good, "timeline": None}, {"timeline": OPTIONAL}
    )  # fmt: skip
    for check in (verifier.verify_many, verifier.errors):
        yield f"Verifier.{check.__name__}", Row(
            check, {"publics": [[]], "proofs": [good], "timeline": None}, {"timeline": OPTIONAL}
        )  # fmt: skip
    yield "gkr.verify", Row(
        gkr.verify, {"key": known, "circuit": made, "public": [], "proof": b"", "instances": 1}
    )  # fmt: skip
    for function in (gkr.error_terms, gkr.security_bits):
        yield function.__name__, Row(
            function,
            {"circuit": made, "field": MODULUS, "instances": 1, "commitment": None,
             "hash": transcript.Hash.SHA_256, "reduction": gkr.Reduction.COLUMNS},
            {"commitment": OPTIONAL},
        )  # fmt: skip
    yield from rows_of_files(made, known)
    yield from rows_of_the_queue()
    yield from rows_of_the_keys()
    yield from rows_of_witnesses()
    yield from rows_of_the_workers()
    yield from rows_of_clients()
    talk = transcript.Transcript()
    talk.absorb(transcript.Label.PROTOCOL, b"x")
    yield (
        "Transcript",
        Row(
            transcript.Transcript,
            {
                "state": bytes(32),
                "drawn": False,
                "hash": transcript.Hash.SHA_256,
                "recursive": False,
            },
            {"drawn": ("true",), "recursive": ("true",)},
        ),
    )
    yield "begin", Row(talk.begin, {"protocol": "test 1"}, {"protocol": ("text",)})
    yield "digest", Row(
        transcript.Hash.SHA_256.digest, {"data": b"", "field": None},
        {"data": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    label = transcript.Label.CLAIM
    yield "absorb", Row(
        talk.absorb, {"label": label, "message": b"", "field": None},
        {"message": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    digested = {"label": label, "field": MODULUS, "data": b"", "before": b""}
    yield "absorb_digest", Row(
        talk.absorb_digest, digested, {"data": ("bytes",), "before": ("bytes",)}
    )  # fmt: skip
    yield "absorb_digested", Row(
        talk.absorb_digested, {"label": label, "digest": b"", "before": b""},
        {"digest": ("bytes",), "before": ("bytes",)},
    )  # fmt: skip
    yield "digest_by_runs", Row(
        transcript.Hash.SHA_256.digest_by_runs, {"data": b"", "field": None, "level": 0},
        {"data": ("bytes",), "field": OPTIONAL},
    )  # fmt: skip
    yield (
        "absorb_elements",
        Row(talk.absorb_elements, {"label": label, "field": MODULUS, "elements": [(1,)]}),
    )
    yield "challenge", Row(talk.challenge, {"field": MODULUS})
    yield "challenges", Row(talk.challenges, {"field": MODULUS, "count": 1})
    yield "ProofWriter", Row(transcript.ProofWriter, {"transcript": talk})
    writer = transcript.ProofWriter(talk)
    yield (
        "ProofWriter.elements",
        Row(writer.elements, {"label": label, "field": MODULUS, "elements": [(1,)]}),
    )
    yield (
        "ProofReader",
        Row(transcript.ProofReader, {"proof": b"", "transcript": talk}, {"proof": ("bytes",)}),
    )
    yield "ProofWriter.points", Row(
        writer.points, {"label": label, "group": G1, "points": [GENERATOR], "compressed": True},
        {"points": ("a list",), "compressed": ("true",)},
    )  # fmt: skip
    reader = transcript.ProofReader(bytes(32), transcript.Transcript())
    yield (
        "ProofReader.elements",
        Row(reader.elements, {"label": label, "field": MODULUS, "count": 1}),
    )
    yield "ProofReader.points", Row(
        transcript.ProofReader(bytes(31) + b"\x40", transcript.Transcript()).points,
        {"label": label, "group": G1, "count": 1, "compressed": True}, {"compressed": ("true",)},
    )  # fmt: skip
    yield (
        "ProofWriter.message",
        Row(writer.message, {"label": label, "message": b""}, {"message": ("bytes",)}),
    )
    yield "ProofReader.message", Row(reader.message, {"label": label, "size": 1})
    of_tau = commitment.ReferenceString.of_tau
    yield "ReferenceString", Row(of_tau, {"tau": 5, "log2_size": 1, "insecure": True},
                                 {"tau": ("huge",), "insecure": ("true",)})  # fmt: skip
    yield "ReferenceString.from_ptau", Row(
        commitment.ReferenceString.from_ptau,
        {"path": POWERS, "log2_size": 1, "device": DEVICE, "insecure": True},
        {"insecure": ("true",)},
    )  # fmt: skip
    string = of_tau(5, 1, insecure=True)
    yield "ReferenceString.of_verifier", Row(
        commitment.ReferenceString.of_verifier,
        {"tau_g1": string.tau_g1[1:], "tau_g2": string.tau_g2, "insecure": True},
        {"insecure": ("true",)},
    )  # fmt: skip
    yield "HyperKzg", Row(commitment.HyperKzg, {"reference": string})
    for scheme in (commitment.Raw(), commitment.Hyrax(), commitment.HyperKzg(string)):
        yield from rows_of_commitment(scheme, MODULUS)
    yield from rows_of_commitment(commitment.Ligero(), NAMED["goldilocks"])
    yield "Ligero", Row(commitment.Ligero, {"log_blowup": 2, "column_bits": 110})
    yield "shape", Row(commitment.Ligero().shape, {"field": NAMED["m31"], "log2_size": 1})

    yield "msm", Row(msm.msm, {**MSM, "timeline": None}, MSM_FINE)
    many = {**MSM, "vectors": [SCALARS], "timeline": None}
    del many["scalars"]
    yield "msm_many", Row(msm.msm_many, many, MSM_FINE)
    bases = msm.MsmBases(DEVICE, G1, POINTS)
    yield "msm_buffer", Row(
        msm.msm_buffer,
        {"bases": bases, "scalars": DEVICE.upload(SCALARS), "vectors": 1, "timeline": None},
        {"timeline": OPTIONAL},
    )  # fmt: skip
    yield "msm_words", Row(
        msm.msm_words, {"bases": bases, "scalars": SCALARS, "options": None, "timeline": None},
        MSM_FINE,
    )  # fmt: skip
    yield (
        "MsmBases",
        Row(
            msm.MsmBases,
            {"device": DEVICE, "group": G1, "points": POINTS, "options": None},
            MSM_FINE,
        ),
    )
    yield "MsmOptions", Row(
        msm.MsmOptions,
        {"window_bits": None, "scalar_bits": 9, "precompute_factor": 1, "batch_size": 1,
         "streamed": None},
        {"window_bits": OPTIONAL, "scalar_bits": OPTIONAL, "precompute_factor": ("None", "huge"),
         "batch_size": ("None", "huge"), "streamed": ("None", "true")},
    )  # fmt: skip
    yield "FixedBase", Row(
        msm.FixedBase, {"device": DEVICE, "group": G1, "point": GENERATOR, "count": 1},
        {"point": OPTIONAL, "count": ("huge",)},
    )  # fmt: skip
    yield (
        "multiply_generator",
        Row(msm.multiply_generator, {"device": DEVICE, "group": G1, "scalars": SCALARS}),
    )
    yield "affine_ints", Row(msm.affine_ints, {"group": G1, "words": POINTS[0].view(np.uint64)})
    yield "plan_msm", Row(
        msm.plan_msm, {"group": G1, "count": 4, "options": msm.MsmOptions(), "batch": 1},
        {"batch": ("huge",)},
    )  # fmt: skip

    bn254 = CURVES["bn254"]
    pairs = {"device": DEVICE, "curve": bn254, "pairs": [(GENERATOR, bn254.g2.generator)]}
    yield "pairing_product", Row(curve.pairing_product, pairs)
    yield "pairing_product_is_one", Row(curve.pairing_product_is_one, pairs)
    edwards = curve.EDWARDS["baby_jubjub"]
    flat = np.zeros((2, 2, 8), np.uint32)
    own = {"device": DEVICE, "curve": edwards, "options": None}
    yield "edwards_bases", Row(msm.edwards_bases, {**own, "points": flat}, {"options": OPTIONAL})
    yield "edwards_msm", Row(
        msm.edwards_msm, {**own, "bases": flat, "scalars": SCALARS, "timeline": None},
        {"options": OPTIONAL, "timeline": OPTIONAL},
    )  # fmt: skip
    yield (
        "from_points",
        Row(
            curve.from_points,
            {"group": G1, "points": [GENERATOR]},
            {"points": ("a list", "a mapping")},
        ),
    )
    yield "to_points", Row(curve.to_points, {"group": G1, "array": POINTS})
    own = curve.WEIERSTRASS["secp256k1"]
    yield "Curve", Row(
        curve.Curve,
        {"name": "own", "fq": own.fq, "fr": own.fr, "a": own.a, "b": own.b,
         "generator": own.generator, "cofactor": 1},
        {"name": ("text",)},
    )  # fmt: skip
    yield "Modulus", Row(field.Modulus, {"name": "x", "value": 7}, {"name": ("text",)})
    yield "from_integers", Row(from_integers, {"field": MODULUS, "integers": [1]})
    yield "integers_to_words", Row(integers_to_words, {"field": MODULUS, "integers": [1]})
    yield "to_integers", Row(field.to_integers, {"field": MODULUS, "array": VECTOR})
    yield "words_to_integers", Row(field.words_to_integers, {"field": MODULUS, "array": VECTOR})
    yield "random_elements", Row(
        field.random_elements, {"field": MODULUS, "count": 1, "seed": 1},
        {"seed": ("None", "huge")},
    )  # fmt: skip

    key = groth16.ProvingKey.from_zkey(EXAMPLE / "circuit.zkey", allow_insecure=True)
    flags = {"allow_insecure": ("true",), "owned": ("true",), "self_check": ("true",)}
    yield "ProvingKey", Row(
        groth16.ProvingKey,
        {"zkey": key.zkey, "device": DEVICE, "timeline": None, "allow_insecure": True,
         "memory_budget": None},
        {**flags, "timeline": OPTIONAL, "memory_budget": ("None", "huge")},
    )  # fmt: skip
    yield "ProvingKey.from_zkey", Row(
        groth16.ProvingKey.from_zkey,
        {"path": EXAMPLE / "circuit.zkey", "device": DEVICE, "timeline": None, "owned": False,
         "allow_insecure": True},
        {**flags, "timeline": OPTIONAL},
    )  # fmt: skip
    yield "prove", Row(
        key.prove,
        {"witness": EXAMPLE / "witness.wtns", "seed": 1, "self_check": False, "timeline": None},
        {**flags, "seed": ("None", "huge"), "timeline": OPTIONAL},
    )  # fmt: skip
    yield "prove_many", Row(
        lambda **given: list(key.prove_many(**given)),
        {"witnesses": [EXAMPLE / "witness.wtns"], "seed": 1, "self_check": False},
        {**flags, "seed": ("None", "huge"), "witnesses": ("a mapping",)},
    )  # fmt: skip
    yield "check", Row(
        key.check, {"subgroup": False, "timeline": None},
        {"subgroup": ("true",), "timeline": OPTIONAL},
    )  # fmt: skip
    verifying = EXAMPLE / "verification_key.json"
    opened = groth16.VerifyingKey.from_json(verifying, allow_insecure=True)
    yield "VerifyingKey.from_json", Row(
        groth16.VerifyingKey.from_json,
        {"path": verifying, "device": DEVICE, "allow_insecure": True}, flags,
    )  # fmt: skip
    yield "VerifyingKey.from_json_text", Row(
        groth16.VerifyingKey.from_json_text,
        {"text": verifying.read_text(), "device": DEVICE, "allow_insecure": True}, flags,
    )  # fmt: skip
    yield "VerifyingKey.from_zkey", Row(
        groth16.VerifyingKey.from_zkey,
        {"zkey": EXAMPLE / "circuit.zkey", "device": DEVICE, "allow_insecure": True}, flags,
    )  # fmt: skip
    yield "verify", Row(opened.verify, {"public": [1], "proof": None})
    yield (
        "verify_batch",
        Row(groth16.verify_batch, {"claims": []}, {"claims": ("a set", "a mapping")[:0]}),
    )
    yield (
        "Proof.from_json",
        Row(groth16.Proof.from_json, {"path": verifying, "curve": "bn254"}, {"curve": OPTIONAL}),
    )
    yield (
        "Proof.from_json_text",
        Row(groth16.Proof.from_json_text, {"text": "{}", "curve": "bn254"}, {"curve": OPTIONAL}),
    )
    yield (
        "public_from_json_text",
        Row(groth16.public_from_json_text, {"text": "[]", "curve": "bn254"}),
    )
    yield "generate_key", Row(
        groth16.generate_key,
        {"r1cs": "no such", "zkey": "no such", "seed": 1, "device": DEVICE, "timeline": None},
        {},
    )  # fmt: skip


def rows_of_files(made: circuit.LayeredCircuit, key: gkr.VerifyingKey) -> Iterator[tuple[str, Row]]:
    """Files of layered circuits, of their keys, inputs and proofs."""
    # A path of text is one, which is written to.
    into = {"path": ("text",)}
    yield "read_circuit", Row(circuit.read_circuit, {"path": EXAMPLE})
    yield "write_circuit", Row(circuit.write_circuit, {"path": os.devnull, "circuit": made}, into)
    yield "to_circuit6", Row(circuit.to_circuit6, {"circuit": made})
    yield "from_circuit6", Row(
        circuit.from_circuit6,
        {"given": circuit.to_circuit6(made), "relay": True, "most_gates": 9},
        {"relay": ("true",), "most_gates": ("huge",)},
    )  # fmt: skip
    yield "read_verifying_key", Row(
        gkr.read_verifying_key,
        {"path": EXAMPLE / "input.json", "circuit": made, "insecure": False},
        {"insecure": ("true",)},
    )  # fmt: skip
    yield "write_verifying_key", Row(
        gkr.write_verifying_key, {"path": os.devnull, "key": key, "circuit": made}, into
    )  # fmt: skip
    for function in (gkr.read_inputs, gkr.read_public_inputs):
        yield function.__name__, Row(
            function, {"path": EXAMPLE / "input.json", "circuit": made}
        )  # fmt: skip
    yield (
        "write_public_inputs",
        Row(gkr.write_public_inputs, {"path": os.devnull, "public": [[1]]}, into),
    )
    yield "write_inputs", Row(
        gkr.write_inputs,
        {"path": os.devnull, "circuit": made, "inputs": [[1, 2]], "public": [[1]]}, into,
    )  # fmt: skip
    yield "read_proof", Row(gkr.read_proof, {"path": EXAMPLE})
    yield "write_proof", Row(
        gkr.write_proof, {"path": os.devnull, "key": key, "instances": 1, "proof": b""},
        {**into, "proof": ("bytes",)},
    )  # fmt: skip


def rows_of_the_queue() -> Iterator[tuple[str, Row]]:
    """The queue of the service, of which one is open in a folder that goes with the process."""
    folder = QUEUE.name
    yield "open_queue", Row(
        service_queue.open_queue,
        {"folder": f"{folder}/other", "database": None, "schema": "quod", "limits": None,
         "sweep_seconds": None, "clock": None},
        {"folder": ("text",), "database": OPTIONAL, "limits": OPTIONAL, "clock": OPTIONAL,
         "sweep_seconds": ("None", "a float")},
    )  # fmt: skip
    yield "Submission", Row(
        service_queue.Submission,
        {"client": "a", "key": "k", "digest": bytes(32), "payload": "", "idempotency_key": "",
         "priority": 0, "deadline": None, "partitions": 1},
        {"client": ("text",), "key": ("text",), "payload": ("text",), "idempotency_key": ("text",),
         "deadline": ("None", "a float")},
    )  # fmt: skip
    yield "Quota", Row(service_queue.Quota, {"jobs": 1, "payload_bytes": 1})
    yield "Limits", Row(
        service_queue.Limits,
        {"quota": service_queue.Quota(), "clients": {}, "jobs": 1, "payload_bytes": 1,
         "kept_jobs": 1, "max_attempts": 1, "lease_seconds": 1.0, "suspend_after": 1,
         "keep_seconds": 1.0, "result_bytes": 1, "stage_events": 1, "ballast_bytes": 4096},
        {"clients": ("a mapping",), "lease_seconds": ("a float",), "keep_seconds": ("a float",)},
    )  # fmt: skip
    yield "Spool", Row(service_queue.Spool, {"folder": f"{folder}/spool"}, {"folder": ("text",)})
    queue = service_queue.open_queue(folder, sweep_seconds=None)
    lease = {"lease": None}
    job = {"job": "1-" + "0" * 16}
    own = {**job, "client": None}
    optional = {"client": OPTIONAL}
    yield (
        "spool write",
        Row(queue.spool.write, {"payload": "text"}, {"payload": ("bytes", "a mapping")}),
    )
    yield "spool open", Row(queue.spool.open, {"name": "0" * 32})
    yield "queue submit", Row(queue.submit, {"submission": None})
    yield "queue submit_many", Row(queue.submit_many, {"submissions": []})
    yield "queue begin_submit", Row(queue.begin_submit, {"submissions": []})
    for call in (queue.cancel, queue.job, queue.results):
        yield f"queue {call.__name__}", Row(call, own, optional)
    yield "queue events", Row(queue.events, {**own, "after": 0, "most": 1}, optional)
    yield "queue wait", Row(
        queue.wait, {**own, "after": None, "timeout": 0}, {**optional, "after": OPTIONAL}
    )  # fmt: skip
    yield "queue watch", Row(queue.watch, {**job, "callback": print}, {"callback": ("a class",)})
    yield "queue find", Row(queue.find, {"client": "a", "idempotency_key": "k"})
    yield "queue jobs", Row(
        queue.jobs, {"client": None, "most": 1, "before": None},
        {"client": ("None", "text"), "before": OPTIONAL},
    )  # fmt: skip
    yield "queue claim", Row(
        queue.claim, {"worker": "w", "keys": None, "most": 1, "wait": 0},
        {"worker": ("text",), "keys": OPTIONAL, "wait": ("a float",)},
    )  # fmt: skip
    yield "queue renew", Row(queue.renew, {"leases": [], "stage": ""}, {"stage": ("text",)})
    yield "queue finish", Row(queue.finish, {**lease, "result": b""})
    yield "queue fail", Row(queue.fail, {**lease, "code": "C", "message": "", "retry": True})
    yield "queue lose", Row(queue.lose, {**lease, "code": "C", "message": ""})
    yield "queue release", Row(queue.release, lease)
    yield "queue attempts", Row(queue.attempts, job)
    yield (
        "queue suspend",
        Row(queue.suspend, {"key": "k", "reason": "r"}, {"key": ("text",), "reason": ("text",)}),
    )
    yield "queue resume", Row(queue.resume, {"key": "k"}, {"key": ("text",)})


def rows_of_the_keys() -> Iterator[tuple[str, Row]]:
    """A repository of keys in the same folder, and those that are loaded."""
    folder = f"{QUEUE.name}/keys"
    repository = service_keys.KeyRepository(folder, create=True)
    zkey = EXAMPLE / "circuit.zkey"
    repository.add(zkey, names=["known"])
    keys = service_keys.ResidentKeys(repository, DEVICE)
    known, switch = {"key": "known"}, ("true",)
    yield "KeyRepository", Row(
        service_keys.KeyRepository, {"folder": folder, "create": True},
        {"folder": ("text",), "create": switch},
    )  # fmt: skip
    yield "repository add", Row(
        repository.add,
        {"zkey": zkey, "verification_key": EXAMPLE / "verification_key.json",
         "wasm": None, "names": [], "move": False, "allow_insecure": False},
        {"wasm": OPTIONAL, "verification_key": OPTIONAL, "move": switch, "allow_insecure": switch},
    )  # fmt: skip
    yield "repository point", Row(
        repository.point, {"name": "other", **known, "move": True}, {"move": switch}
    )  # fmt: skip
    for call in (repository.resolve, repository.record, repository.remove):
        yield f"repository {call.__name__}", Row(call, known)
    yield "repository check", Row(repository.check, {**known, "deep": False}, {"deep": switch})
    yield "repository read", Row(repository.read, {**known, "name": "circuit.wasm"})
    yield "repository read_zkey", Row(repository.read_zkey, known)
    yield "ResidentKeys", Row(
        service_keys.ResidentKeys,
        {"repository": repository, "device": DEVICE, "host_bytes": None, "device_bytes": None},
        {"host_bytes": ("None", "huge"), "device_bytes": ("None", "huge")},
    )  # fmt: skip
    for call in (keys.lease, keys.preload):
        yield f"keys {call.__name__}", Row(
            call, {**known, "timeout": 60}, {"timeout": ("None", "a float")}
        )  # fmt: skip
    yield "keys evict", Row(keys.evict, known)
    yield "keys warm", Row(keys.warm, {"keys": ["known"]})


def rows_of_witnesses() -> Iterator[tuple[str, Row]]:
    """Witness calculators and what they may take."""
    yield "WitnessLimits", Row(
        service_witness.WitnessLimits,
        {"seconds": 1.0, "memory_bytes": 1 << 20, "compile_seconds": 9, "compile_bytes": 1 << 30},
        {"seconds": ("a float",)},
    )  # fmt: skip
    calculator = service_witness.WitnessCalculator.open(EXAMPLE / "circuit.wasm")
    yield "WitnessCalculator", Row(
        service_witness.WitnessCalculator,
        {"wasm": (EXAMPLE / "circuit.wasm").read_bytes(), "name": "n", "curve": "bn254",
         "variables": 3993, "limits": None},
        {"name": ("text",), "curve": OPTIONAL, "variables": OPTIONAL, "limits": OPTIONAL},
    )  # fmt: skip
    yield "WitnessCalculator.open", Row(
        calculator.open, {"path": EXAMPLE / "circuit.wasm", "limits": None}, {"limits": OPTIONAL}
    )  # fmt: skip
    inputs = (EXAMPLE / "input.json").read_bytes()
    yield "calculate", Row(
        calculator.calculate, {"inputs": inputs, "where": "w"}, {"where": ("text",)}
    )  # fmt: skip
    repository = service_keys.KeyRepository(f"{QUEUE.name}/keys", create=True)
    yield "RegisteredCalculators", Row(
        service_witness.RegisteredCalculators,
        {"repository": repository, "limits": None, "most": 1},
        {"limits": OPTIONAL, "most": ("huge",)},
    )  # fmt: skip
    wasm = EXAMPLE / "circuit.wasm"
    repository.remove("known")
    repository.add(EXAMPLE / "circuit.zkey", wasm=wasm, names=["known"])
    registered = service_witness.RegisteredCalculators(repository)
    yield "registered", Row(registered, {"key": "known", "inputs": inputs})
    yield "registered warm", Row(registered.warm, {"key": "known"})


def rows_of_clients() -> Iterator[tuple[str, Row]]:
    """Clients of a server that is not there."""
    yield "ProofRequest", Row(
        service_client.ProofRequest,
        {"key": "k", "wtns": b"x", "path": None, "inputs": None, "idempotency_key": "7",
         "priority": 1, "deadline": 1.0},
        {"key": ("text",), "wtns": ("bytes",), "path": ("None",), "inputs": ("None",),
         "idempotency_key": ("text",), "deadline": ("None", "a float")},
    )  # fmt: skip
    for name in ("Client", "AsyncClient"):
        yield (
            name,
            Row(
                getattr(service_client, name),
                {"address": "unix:none", "token": "t", "certificate": None},
                {"token": ("None", "text"), "certificate": ("None", "true")},
            ),
        )


def rows_of_the_workers() -> Iterator[tuple[str, Row]]:
    """Workers of the queue and the keys above, which are not started."""
    queue = service_queue.open_queue(f"{QUEUE.name}/of workers", sweep_seconds=None)
    repository = service_keys.KeyRepository(f"{QUEUE.name}/keys", create=True)
    right: dict[str, Any] = {
        "device": "cpu", "host_bytes": None, "device_bytes": None, "memory_bytes": None,
        "warm": ("known",), "ahead": 1, "checks": 1, "lanes": 1, "patience_seconds": 1,
        "arbiter_constraints": 1,
    }  # fmt: skip
    bytes_fine, number = ("None", "huge"), ("a float",)
    yield "WorkerSettings", Row(
        service_worker.WorkerSettings, right,
        {"device": ("text",), "host_bytes": bytes_fine, "device_bytes": bytes_fine,
         "memory_bytes": bytes_fine, "patience_seconds": number, "arbiter_constraints": ("huge",)},
    )  # fmt: skip
    pool = service_worker.LocalPool(queue, repository)
    yield "LocalPool", Row(
        service_worker.LocalPool,
        {"queue": queue, "repository": repository, "workers": [service_worker.WorkerSettings()]},
    )  # fmt: skip
    yield "ProcessPool", Row(
        service_worker.ProcessPool,
        {"queue": queue, "repository": repository, "workers": [service_worker.WorkerSettings()],
         "command": ["false"]},
    )  # fmt: skip
    for call in (pool.preload, pool.evict):
        yield (
            f"workers {call.__name__}",
            Row(call, {"key": "known", "worker": None}, {"worker": OPTIONAL}),
        )
    yield "workers resume", Row(pool.resume, {"worker": "cpu"})
    yield "read_result", Row(service_worker.read_result, {"data": b"{}"})


TABLE = dict(rows())


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken for a folder's makes none in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", TABLE)
def test_wrong_arguments_are_errors_of_ours(name: str) -> None:
    call, right, fine = TABLE[name]
    for argument in right:
        for kind, value in WRONG.items():
            if kind in fine.get(argument, ()):
                continue
            with pytest.raises(QuodError) as refused:
                call(**right | {argument: value})
            assert "\n" not in str(refused.value), (argument, kind)


NOT_IN_IT = {
    # They take nothing, or are made by others, and their methods are in the table.
    "devices", "Device", "DeviceInfo", "Buffer", "IdleStream", "RecordingStream", "RecordedStream",
    "SubmittedStream", "Recording", "Event", "Cancellation", "Timeline", "MsmPlan", "Ordering",
    "VerifyingKey", "Proof", "Layout", "Wire", "Poseidon2", "POSEIDON2",
    # Opened by open_device.
    "CpuDevice", "CudaDevice",
    # Of whoever writes kernels; see tests/kernel/test_tracer_errors.py.
    "Element", "ElementOf", "Hash", "Reduction", "Label", "Reduced", "SumcheckProof",
    "LookupProof",
    # Protocols, the record of what is claimed, and a scheme, whose calls are in the table.
    "Claim", "Scheme", "Committer", "Commitment", "Raw", "Hyrax",
    "Inputs", "prime_field", "extension_field", "Extension",
    # Plain records and laws of points, which do not look at what they are given.
    "PairingCurve", "EdwardsCurve", "MontgomeryForm", "affine_group", "Group", "Verdict",
    "AffineGroup", "g1_group", "g2_group",
    # Records of what files hold; writers look at them.
    "SparseMatrix", "ProofJson", "VerifyingKeyJson",
    # What their `open` makes, which is in the table.
    "Zkey", "Witness", "R1cs", "PowersOfTau", "Circuit6", "Circuit6Witness",
    "BellmanParameters", "BellmanVerifyingKey",
    # Records that the queue makes, its clock, and itself, whose calls are in the table.
    "Job", "JobState", "Lease", "Attempt", "Outcome", "QueueStatus", "KeyStatus", "Clock",
    "JobQueue",
    # Records that servers tell.
    "RemoteJob", "RemoteKey", "ServerStatus",
    # Records of keys, what a loader is, and what a cache is given, which tests/service/keys has.
    "KeyRecord", "FileRecord", "ListedKey", "Removed", "CacheStatus", "KeyUse", "KeyCache",
    "Loader", "Needs", "Tier",
    # What workers tell, and the protocol of a pool.
    "WorkerPool", "WorkerStatus", "WorkerState", "Stage", "StageRecord",
}  # fmt: skip


@pytest.mark.parametrize(
    "package",
    ["", "device", "msm", "ntt", "sumcheck", "transcript", "commitment", "lookup", "circuit", "gkr"]
    + ["curve", "field", "formats", "groth16", "circuit.gadgets", "service.queue", "service.keys"]
    + ["service.witness", "service.worker", "service.client"],
)
def test_every_public_callable_has_a_row(package: str) -> None:
    module = import_module(f"quod.{package}") if package else quod
    for name in module.__all__:
        found = getattr(module, name)
        is_error = inspect.isclass(found) and issubclass(found, Exception)
        if callable(found) and not is_error:
            own = f"{package}.{name}"
            assert {name, own} & {*TABLE, *NOT_IN_IT}, f"{name} of quod.{package} needs a row"
