"""Verifiable inference in the table of public calls."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from quod import inference
from quod.inference.files.proof import ProofFile
from tests.doors.row import DEVICE, EXAMPLE, Row


def rows() -> Iterator[tuple[str, Row]]:
    """Of perceptrons, their proofs and keys."""
    hidden = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), np.ones(2, int))
    last = inference.Layer(np.ones((2, 2), np.int8), np.zeros(2, int), None)
    yield "inference.Perceptron", Row(inference.Perceptron, {"layers": (hidden, last)})
    perceptron = inference.Perceptron((hidden, last))
    yield "inference.Perceptron.open", Row(inference.Perceptron.open, {"path": EXAMPLE})
    yield "Perceptron.write", Row(perceptron.write, {"path": os.devnull}, {"path": ("text",)})
    images = np.ones((1, 2), int)
    yield (
        "inference.run",
        Row(inference.run, {"device": DEVICE, "perceptron": perceptron, "images": images}),
    )
    prover = inference.Prover(DEVICE, perceptron)
    right = {"device": DEVICE, "perceptron": perceptron, "key": prover.key, "allow_bits": 0}
    yield "inference.Prover", Row(inference.Prover, right, {"key": ("None",)})
    yield "inference.Prover.prove", Row(prover.prove, {"images": images})
    key = prover.key
    yield (
        "inference.error_terms",
        Row(inference.error_terms, {"key": key, "images": 1}, {"images": ("huge",)}),
    )
    yield (
        "inference.verify",
        Row(
            inference.verify,
            {
                "key": key,
                "images": images,
                "logits": np.zeros((1, 2), int),
                "proof": b"",
                "allow_bits": 0,
            },
        ),
    )
    yield (
        "inference.VerifyingKey",
        Row(
            inference.VerifyingKey,
            {"widths": key.widths, "table_bits": key.table_bits, "biases": key.biases,
             "multipliers": key.multipliers, "root": key.root, "weights_proof": key.weights_proof,
             "field": key.field},
            {"weights_proof": ("bytes",)},
        ),
    )  # fmt: skip
    given = {"path": os.devnull, "key": key}
    write = Row(inference.write_verifying_key, given, {"path": ("text",)})
    yield "inference.write_verifying_key", write
    yield (
        "inference.read_verifying_key",
        Row(inference.read_verifying_key, {"path": EXAMPLE}),
    )
    logits = np.zeros((1, 2), int)
    yield (
        "inference.write_proof",
        Row(
            inference.write_proof,
            {**given, "logits": logits, "proof": b""},
            {"path": ("text",), "proof": ("bytes",)},
        ),
    )
    yield "inference.read_proof", Row(inference.read_proof, {"path": EXAMPLE})
    yield "VerifyingKey.check_weights", Row(key.check_weights, {"allow_bits": 0})
    file = ProofFile("proof", key.digest, logits, b"")
    yield (
        "ProofFile.check",
        Row(file.check, {"key": key, "images": 1}),
    )
