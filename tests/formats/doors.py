"""Calls of readers and writers of files for tests/test_public_door.py; see tests/layered/doors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quod import formats
from quod.field import NAMED
from quod.formats.zkey.file import POINTS

Call = tuple[str, Callable[..., Any], dict[str, Any], dict[str, tuple[str, ...]]]

DATA = Path(__file__).parents[1] / "data" / "formats" / "bn254"
EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
# A path of text is one, which is written to, and bytes are content.
INTO = {"path": ("text",)}
OPTIONAL = ("None",)


def calls() -> Iterator[Call]:
    """All of them."""
    yield from _readers()
    yield from _arrays()
    yield from _json()
    yield "coefficient_dtype", formats.coefficient_dtype, {"words": 8}, {}
    yield (
        "Gguf.open", formats.Gguf.open, {"path": EXAMPLE, "owned": False, "most_bytes": None},
        {"owned": ("true",), "most_bytes": (*OPTIONAL, "huge")},
    )  # fmt: skip
    yield (
        "write_gguf", formats.write_gguf, {"path": os.devnull, "metadata": {}, "tensors": {}},
        {**INTO, "metadata": ("a mapping",), "tensors": ("a mapping",)},
    )  # fmt: skip
    yield "describe", formats.describe, {"path": EXAMPLE / "witness.wtns"}, {}
    content = {"path": os.devnull, "content": b""}
    yield (
        "write_atomically",
        formats.write_atomically,
        content,
        {**INTO, "content": ("bytes", "a class")},
    )
    yield (
        "write_all_atomically", formats.write_all_atomically, {"contents": {os.devnull: b""}},
        {"contents": ("a mapping",)},
    )  # fmt: skip


def _readers() -> Iterator[Call]:
    yield (
        "Zkey.open", formats.Zkey.open, {"path": EXAMPLE / "circuit.zkey", "owned": False},
        {"owned": ("true",)},
    )  # fmt: skip
    for reader in (
        formats.Witness, formats.R1cs, formats.PowersOfTau, formats.Circuit6,
        formats.BellmanParameters, formats.BellmanVerifyingKey,
    ):  # fmt: skip
        yield f"{reader.__name__}.open", reader.open, {"path": EXAMPLE}, {}
    name = "Circuit6Witness.open"
    yield name, formats.Circuit6Witness.open, {"path": EXAMPLE}, {}


def _arrays() -> Iterator[Call]:
    """Keys, witnesses, constraint systems."""
    key = formats.Zkey.open(DATA / "circuit.zkey")
    arrays = {name: getattr(key, name) for name in (*POINTS, "coefficients", "circuit_hash")}
    given = {"curve": "bn254", "public": key.public, "domain_size": key.domain_size, **arrays}
    fine = {"circuit_hash": OPTIONAL}
    yield (
        "from_arrays", formats.Zkey.from_arrays,
        {"name": "a key", "constraints": 1, "owned": False, **given},
        {**fine, "name": ("text",), "constraints": ("huge",), "owned": ("true",)},
    )  # fmt: skip
    yield "write_zkey", formats.write_zkey, {"path": os.devnull, **given}, {**fine, **INTO}
    values = np.array([[1, *[0] * 7]], np.uint32)
    witness = {"path": os.devnull, "curve": "bn254", "values": values}
    yield "write_wtns", formats.write_wtns, witness, INTO
    system = formats.R1cs.open(DATA / "circuit.r1cs")
    counts = {
        name: getattr(system, name)
        for name in ("curve", "wires", "public_outputs", "public_inputs", "private_inputs")
    }
    yield (
        "write_r1cs", formats.write_r1cs,
        {"path": os.devnull, **counts, **dict(zip("abc", system.matrices)), "wire_labels": None,
         "labels": None},
        {**INTO, "wire_labels": OPTIONAL, "labels": OPTIONAL},
    )  # fmt: skip
    for writer in (formats.write_bellman_key, formats.write_bellman_parameters):
        yield writer.__name__, writer, {"path": os.devnull, "points": {}}, INTO
    m31, words = NAMED["m31"], np.zeros((1, 1), np.uint32)
    yield (
        "write_circuit6_witness", formats.write_circuit6_witness,
        {"path": os.devnull, "field": m31, "private": words, "public": words}, INTO,
    )  # fmt: skip
    yield "write_circuit6", formats.write_circuit6, {"path": os.devnull, "circuit": None}, INTO


def _json() -> Iterator[Call]:
    key, proof = EXAMPLE / "verification_key.json", {"curve": "bn254"}
    for kind, right, text in (
        ("proof", proof, b"{}"),
        ("public", proof, b"[]"),
        ("proofs", proof, b"[]"),
        ("publics", proof, b"[]"),
        ("verification_key", {}, key.read_bytes()),
    ):
        fine = {"curve": OPTIONAL} if kind == "proof" else {}
        yield f"read_{kind}", getattr(formats, f"read_{kind}"), {"path": EXAMPLE, **right}, fine
        parse = getattr(formats, f"parse_{kind}")
        yield (
            f"parse_{kind}", parse, {"data": text, **right, "name": "x"},
            {**fine, "name": ("text",)},
        )  # fmt: skip
    point = (1, 2), ((1, 2), (3, 4)), (5, 6)
    for place, name in enumerate(("curve", "a", "b", "c")):

        def of(value: Any, place: int = place) -> bytes:
            parts: list[Any] = ["bn254", *point]
            parts[place] = value
            return formats.proof_to_json(formats.ProofJson(*parts))

        right = ["bn254", *point][place]
        yield f"proof_to_json, {name}", of, {"value": right}, {"value": OPTIONAL if place else ()}
    yield "proof_to_json", formats.proof_to_json, {"proof": formats.ProofJson("bn254", *point)}, {}
    known = formats.read_verification_key(key)
    yield "verification_key_to_json", formats.verification_key_to_json, {"key": known}, {}
    yield "public_to_json", formats.public_to_json, {"public": [1]}, {}
