"""RedJubjub: signatures of Spends and of balances, one by one and in batches.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.signatures.batch import SignatureClaim as SignatureClaim
    from quod.zcash.signatures.batch import verify_signatures as verify_signatures
    from quod.zcash.signatures.redjubjub import RedJubjub as RedJubjub
    from quod.zcash.signatures.redjubjub import binding_scheme as binding_scheme
    from quod.zcash.signatures.redjubjub import binding_signature as binding_signature
    from quod.zcash.signatures.redjubjub import spend_auth_scheme as spend_auth_scheme
    from quod.zcash.signatures.redjubjub import (
        spend_auth_signature as spend_auth_signature,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)
