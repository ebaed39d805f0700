"""Groth16: proving keys and the prover, verifying keys and the verifier, keys for tests.

The names below load on first use (PEP 562): a verifier does not import the prover.
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
else:
    __getattr__, __dir__ = lazy_names(__name__)
