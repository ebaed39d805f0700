"""Layered circuits, their proofs and their files in the table of public calls."""

from __future__ import annotations

import os
from collections.abc import Iterator

from quod import gkr, transcript
from quod import layered as circuit
from tests.doors.row import DEVICE, EXAMPLE, MODULUS, OPTIONAL, Row
from tests.formats import doors as files
from tests.layered import doors


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


def rows() -> Iterator[tuple[str, Row]]:
    """Of circuits and of their proofs."""
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
                "allow_bits": 0,
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
            {
                "device": DEVICE,
                "key": known,
                "circuit": made,
                "instances": 1,
                "batch": 1,
                "allow_bits": 0,
            },
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
        gkr.verify,
        {"key": known, "circuit": made, "public": [], "proof": b"", "instances": 1,
         "allow_bits": 0},
    )  # fmt: skip
    for function in (gkr.error_terms, gkr.security_bits):
        yield function.__name__, Row(
            function,
            {"circuit": made, "field": MODULUS, "instances": 1, "commitment": None,
             "hash": transcript.Hash.SHA_256, "reduction": gkr.Reduction.COLUMNS},
            {"commitment": OPTIONAL},
        )  # fmt: skip
    yield from rows_of_files(made, known)
