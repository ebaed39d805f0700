"""Groth16 in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

from quod import groth16
from tests.doors.row import DEVICE, EXAMPLE, OPTIONAL, Row


def rows() -> Iterator[tuple[str, Row]]:
    """Of keys and proofs."""
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
    yield "ProvingKey.from_bellman", Row(
        groth16.ProvingKey.from_bellman,
        {"path": "no such", "r1cs": "no such", "device": DEVICE, "timeline": None,
         "checked": True, "allow_insecure": True},
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
        Row(
            groth16.Proof.from_json_text,
            {"text": "{}", "curve": "bn254", "name": "p"},
            {"curve": OPTIONAL},
        ),
    )
    yield (
        "public_from_json_text",
        Row(groth16.public_from_json_text, {"text": "[]", "curve": "bn254"}),
    )
    yield "solidity_verifier", Row(
        groth16.solidity_verifier, {"key": opened, "name": "N", "allow_insecure": True},
        {"allow_insecure": ("true",)},
    )  # fmt: skip
    proof = groth16.Proof("bn254", (1, 2), opened.beta_g2, (1, 2))
    yield "solidity_calldata", Row(
        groth16.solidity_calldata, {"proof": proof, "public": [1]}
    )  # fmt: skip
    yield "generate_key", Row(
        groth16.generate_key,
        {"r1cs": "no such", "zkey": "no such", "seed": 1, "device": DEVICE, "timeline": None},
        {},
    )  # fmt: skip
