"""Files: readers, parsers of texts, and writers, which look at arrays of any origin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from quod import formats, gkr, inference
from quod import layered as circuit
from quod.field import NAMED
from quod.formats.zkey.file import POINTS
from quod.inference.transformer import proof as answers
from tests.boundaries.row import DATA, DEVICE, EXAMPLE, MODULUS, Row, row

INTO = {"path": "text"}
"""A path of text is accepted, and the file is written."""
NOWHERE = os.devnull


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of all files."""
    yield from _binary()
    yield from _texts()
    yield from _output()
    yield from _layered()
    yield from _perceptrons()
    yield from _answers()


def _binary() -> Iterator[tuple[str, Row]]:
    yield "Zkey", row(formats.Zkey.open, path=EXAMPLE / "circuit.zkey", owned=False)
    for reader in (
        formats.Witness, formats.R1cs, formats.PowersOfTau, formats.Circuit6,
        formats.Circuit6Witness, formats.BellmanParameters, formats.BellmanVerifyingKey,
    ):  # fmt: skip
        yield reader.__name__, row(reader.open, path=EXAMPLE)
    yield "Gguf", row(
        formats.Gguf.open, {"max_bytes": "huge"}, path=EXAMPLE, owned=False, max_bytes=None
    )  # fmt: skip
    yield "describe", row(formats.describe, path=EXAMPLE / "witness.wtns")
    yield "coefficient_dtype", row(formats.coefficient_dtype, words=8)


def _texts() -> Iterator[tuple[str, Row]]:
    key, of_curve = EXAMPLE / "verification_key.json", {"curve": "bn254"}
    for kind, arguments, text in (
        ("proof", of_curve, b"{}"), ("public", of_curve, b"[]"), ("proofs", of_curve, b"[]"),
        ("publics", of_curve, b"[]"), ("verification_key", {}, key.read_bytes()),
    ):  # fmt: skip
        yield f"read_{kind}", row(getattr(formats, f"read_{kind}"), path=EXAMPLE, **arguments)
        parse = getattr(formats, f"parse_{kind}")
        yield f"parse_{kind}", row(parse, {"name": "text"}, data=text, **arguments, name="x")
    parts = {"curve": "bn254", "a": (1, 2), "b": ((1, 2), (3, 4)), "c": (5, 6)}
    yield "ProofJson", row(
        lambda **values: formats.proof_to_json(formats.ProofJson(**values)), **parts
    )  # fmt: skip
    yield "public_to_json", row(formats.public_to_json, public=[1])


def _output() -> Iterator[tuple[str, Row]]:
    key = formats.Zkey.open(DATA / "circuit.zkey")
    arrays: dict[str, Any] = {
        name: getattr(key, name) for name in (*POINTS, "coefficients", "circuit_hash")
    }
    arrays |= {"curve": "bn254", "public": key.public, "domain_size": key.domain_size}
    yield "from_arrays", row(
        formats.Zkey.from_arrays, {"name": "text", "constraints": "huge"}, name="a key",
        constraints=1, owned=False, **arrays,
    )  # fmt: skip
    yield "write_zkey", row(formats.write_zkey, INTO, path=NOWHERE, **arrays)
    values = np.array([[1, *[0] * 7]], np.uint32)
    yield "write_wtns", row(formats.write_wtns, INTO, path=NOWHERE, curve="bn254", values=values)
    system = formats.R1cs.open(DATA / "circuit.r1cs")
    counts = ("curve", "wires", "public_outputs", "public_inputs", "private_inputs")
    yield "write_r1cs", row(
        formats.write_r1cs, INTO, path=NOWHERE, **{name: getattr(system, name) for name in counts},
        **dict(zip("abc", system.matrices)), wire_labels=None, labels=None,
    )  # fmt: skip
    for writer in (formats.write_bellman_key, formats.write_bellman_parameters):
        yield writer.__name__, row(writer, INTO, path=NOWHERE, points={})
    words = np.zeros((1, 1), np.uint32)
    yield "write_circuit6_witness", row(
        formats.write_circuit6_witness, INTO, path=NOWHERE, field=NAMED["m31"], private=words,
        public=words,
    )  # fmt: skip
    yield "write_gguf", row(formats.write_gguf, INTO, path=NOWHERE, metadata={}, tensors={})
    yield "write_atomically", row(formats.write_atomically, INTO, path=NOWHERE, content=b"")
    yield "write_all_atomically", row(formats.write_all_atomically, contents={NOWHERE: b""})


def _layered() -> Iterator[tuple[str, Row]]:
    """Files of layered circuits, of their keys, inputs and proofs."""
    builder = circuit.CircuitBuilder(MODULUS, 1)
    builder.layer(1).add(0, 0)
    layered = builder.finished()
    key, inputs = gkr.VerifyingKey.of(layered, MODULUS), EXAMPLE / "input.json"
    yield "read_circuit", row(circuit.read_circuit, path=EXAMPLE)
    yield "write_circuit", row(circuit.write_circuit, INTO, path=NOWHERE, circuit=layered)
    expander = circuit.to_circuit6(layered)
    yield "write_circuit6", row(formats.write_circuit6, INTO, path=NOWHERE, circuit=expander)
    yield "from_circuit6", row(
        circuit.from_circuit6, {"max_gates": "huge"}, circuit=expander, max_gates=9
    )  # fmt: skip
    yield "read_verifying_key", row(
        gkr.read_verifying_key, path=inputs, circuit=layered, insecure=False
    )  # fmt: skip
    yield "write_verifying_key", row(
        gkr.write_verifying_key, INTO, path=NOWHERE, key=key, circuit=layered
    )  # fmt: skip
    for function in (gkr.read_inputs, gkr.read_public_inputs):
        yield function.__name__, row(function, path=inputs, circuit=layered)
    yield "write_public_inputs", row(gkr.write_public_inputs, INTO, path=NOWHERE, public=[[1]])
    yield "write_inputs", row(
        gkr.write_inputs, INTO, path=NOWHERE, circuit=layered, inputs=[[1, 2]], public=[[1]]
    )  # fmt: skip
    yield "read_proof", row(gkr.read_proof, path=EXAMPLE)
    yield "write_proof", row(gkr.write_proof, INTO, path=NOWHERE, key=key, instances=1, proof=b"")


def _perceptrons() -> Iterator[tuple[str, Row]]:
    """Files of verifiable inference."""
    hidden = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), np.ones(2, int))
    last = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), None)
    perceptron = inference.Perceptron((hidden, last))
    key = inference.Prover(DEVICE, perceptron).key
    yield "Perceptron.open", row(inference.Perceptron.open, path=EXAMPLE)
    yield "Perceptron.write", row(perceptron.write, INTO, path=NOWHERE)
    yield "inference, write_verifying_key", row(
        inference.write_verifying_key, INTO, path=NOWHERE, key=key
    )  # fmt: skip
    yield "inference, read_verifying_key", row(inference.read_verifying_key, path=EXAMPLE)
    yield "inference, write_proof", row(
        inference.write_proof, INTO, path=NOWHERE, key=key, logits=np.zeros((1, 2), int), proof=b""
    )  # fmt: skip
    yield "inference, read_proof", row(inference.read_proof, path=EXAMPLE)


def _answers() -> Iterator[tuple[str, Row]]:
    """Files of language models' answers."""
    yield "Statement", row(answers.Statement, tokens=[1, 2], prompt=1)
    yield "read_key", row(answers.read_key, path=EXAMPLE)
    yield "read_answer", row(answers.read_answer, path=EXAMPLE)
