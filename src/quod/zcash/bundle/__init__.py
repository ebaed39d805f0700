"""Bundles: the Spends, Outputs and Converts of a transaction, with their balance and signatures.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.bundle.balance import binding_signing_key as binding_signing_key
    from quod.zcash.bundle.balance import (
        binding_verification_key as binding_verification_key,
    )
    from quod.zcash.bundle.proving import bundle_signing_key as bundle_signing_key
    from quod.zcash.bundle.proving import prove_bundle as prove_bundle
    from quod.zcash.bundle.signed import Bundle as Bundle
    from quod.zcash.bundle.statements import BundleEntry as BundleEntry
    from quod.zcash.bundle.statements import decode_statements as decode_statements
    from quod.zcash.bundle.unsigned import UnsignedBundle as UnsignedBundle
else:
    __getattr__, __dir__ = lazy_names(__name__)
