"""Groth16: proving keys, the prover, verifying keys, the verifier, keys for tests.

The names below load on first use (PEP 562): who verifies needs no prover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.groth16.batch_verification import Verdict as Verdict
    from quod.groth16.batch_verification import verify_batch as verify_batch
    from quod.groth16.encodings.solidity import solidity_calldata as solidity_calldata
    from quod.groth16.encodings.solidity import solidity_verifier as solidity_verifier
    from quod.groth16.keys import ProvingKey as ProvingKey
    from quod.groth16.proof import Proof as Proof
    from quod.groth16.proof import public_from_json_text as public_from_json_text
    from quod.groth16.setup import generate_key as generate_key
    from quod.groth16.tags import INSECURE_TAG as INSECURE_TAG
    from quod.groth16.verifier import VerifyingKey as VerifyingKey

__all__ = [
    "ProvingKey",
    "VerifyingKey",
    "Proof",
    "Verdict",
    "verify_batch",
    "public_from_json_text",
    "generate_key",
    "solidity_verifier",
    "solidity_calldata",
    "INSECURE_TAG",
]

_HOME = {
    "ProvingKey": "quod.groth16.keys",
    "VerifyingKey": "quod.groth16.verifier",
    "Verdict": "quod.groth16.batch_verification",
    "verify_batch": "quod.groth16.batch_verification",
    "Proof": "quod.groth16.proof",
    "public_from_json_text": "quod.groth16.proof",
    "generate_key": "quod.groth16.setup",
    "solidity_verifier": "quod.groth16.encodings.solidity",
    "solidity_calldata": "quod.groth16.encodings.solidity",
    "INSECURE_TAG": "quod.groth16.tags",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
