"""GKR: proofs that the outputs of a layered circuit are zero.

`VerifyingKey.of` fixes what a verifier knows, `Prover` proves on any device, `verify` is plain
Python, `Verifier` checks many proofs on a device. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.gkr.checker.device_verifier import Verifier as Verifier
    from quod.gkr.files.inputs import read_inputs as read_inputs
    from quod.gkr.files.inputs import read_public_inputs as read_public_inputs
    from quod.gkr.files.inputs import write_inputs as write_inputs
    from quod.gkr.files.inputs import write_public_inputs as write_public_inputs
    from quod.gkr.files.key import read_verifying_key as read_verifying_key
    from quod.gkr.files.key import write_verifying_key as write_verifying_key
    from quod.gkr.files.proof import read_proof as read_proof
    from quod.gkr.files.proof import write_proof as write_proof
    from quod.gkr.key import VerifyingKey as VerifyingKey
    from quod.gkr.prover.prover import Prover as Prover
    from quod.gkr.reduction import Reduction as Reduction
    from quod.gkr.security import error_terms as error_terms
    from quod.gkr.security import security_bits as security_bits
    from quod.gkr.verifier.verifier import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
