"""GKR: proofs that a layered circuit gives zeros.

`VerifyingKey.of` fixes what a verifier knows, `Prover` proves on any device, `verify` is plain
Python, `Verifier` checks many proofs on a device. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.gkr.checker import Verifier as Verifier
    from quod.gkr.inputs_file import read_inputs as read_inputs
    from quod.gkr.inputs_file import read_public_inputs as read_public_inputs
    from quod.gkr.inputs_file import write_public_inputs as write_public_inputs
    from quod.gkr.key import VerifyingKey as VerifyingKey
    from quod.gkr.key_file import read_verifying_key as read_verifying_key
    from quod.gkr.key_file import write_verifying_key as write_verifying_key
    from quod.gkr.proof_file import read_proof as read_proof
    from quod.gkr.proof_file import write_proof as write_proof
    from quod.gkr.prover import Prover as Prover
    from quod.gkr.security import error_terms as error_terms
    from quod.gkr.security import security_bits as security_bits
    from quod.gkr.verifier import verify as verify

__all__ = [
    "Prover",
    "Verifier",
    "VerifyingKey",
    "error_terms",
    "security_bits",
    "verify",
    "read_inputs",
    "read_public_inputs",
    "write_public_inputs",
    "read_verifying_key",
    "write_verifying_key",
    "read_proof",
    "write_proof",
]

_HOME = {
    "Prover": "quod.gkr.prover",
    "Verifier": "quod.gkr.checker",
    "VerifyingKey": "quod.gkr.key",
    "error_terms": "quod.gkr.security",
    "security_bits": "quod.gkr.security",
    "verify": "quod.gkr.verifier",
    "read_inputs": "quod.gkr.inputs_file",
    "read_public_inputs": "quod.gkr.inputs_file",
    "write_public_inputs": "quod.gkr.inputs_file",
    "read_verifying_key": "quod.gkr.key_file",
    "write_verifying_key": "quod.gkr.key_file",
    "read_proof": "quod.gkr.proof_file",
    "write_proof": "quod.gkr.proof_file",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
