"""GKR: proofs that a layered circuit gives zeros.

`VerifyingKey.of` fixes what a verifier knows, `Prover` proves on any device, `verify` is plain
Python. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.gkr.key import VerifyingKey as VerifyingKey
    from quod.gkr.prover import Prover as Prover
    from quod.gkr.security import error_terms as error_terms
    from quod.gkr.security import security_bits as security_bits
    from quod.gkr.verifier import verify as verify

__all__ = ["Prover", "VerifyingKey", "error_terms", "security_bits", "verify"]

_HOME = {
    "Prover": "quod.gkr.prover",
    "VerifyingKey": "quod.gkr.key",
    "error_terms": "quod.gkr.security",
    "security_bits": "quod.gkr.security",
    "verify": "quod.gkr.verifier",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
