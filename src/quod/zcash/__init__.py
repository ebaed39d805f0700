"""Sapling and MASP: keys, addresses, notes, paths, and the statements of proofs.

Scalars are ints, points are pairs of ints, and encodings are those of the Zcash protocol
specification. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.address import PaymentAddress as PaymentAddress
    from quod.zcash.address import diversify_hash as diversify_hash
    from quod.zcash.bundle.balance import binding_signing_key as binding_signing_key
    from quod.zcash.bundle.proving import bundle_signing_key as bundle_signing_key
    from quod.zcash.bundle.proving import prove_bundle as prove_bundle
    from quod.zcash.bundle.signed import Bundle as Bundle
    from quod.zcash.bundle.statements import decode_statements as decode_statements
    from quod.zcash.bundle.unsigned import UnsignedBundle as UnsignedBundle
    from quod.zcash.keys import ExpandedSpendingKey as ExpandedSpendingKey
    from quod.zcash.keys import FullViewingKey as FullViewingKey
    from quod.zcash.keys import ProofGenerationKey as ProofGenerationKey
    from quod.zcash.keys import default_diversifier as default_diversifier
    from quod.zcash.keys import incoming_address as incoming_address
    from quod.zcash.note import Note as Note
    from quod.zcash.note import ephemeral_secret as ephemeral_secret
    from quod.zcash.note import value_commitment as value_commitment
    from quod.zcash.output_statement import OutputStatement as OutputStatement
    from quod.zcash.protocol import MASP as MASP
    from quod.zcash.protocol import SAPLING as SAPLING
    from quod.zcash.protocol import Protocol as Protocol
    from quod.zcash.scalars import decode_scalar as decode_scalar
    from quod.zcash.scalars import encode_scalar as encode_scalar
    from quod.zcash.scalars import random_scalar as random_scalar
    from quod.zcash.signatures.batch import SignatureClaim as SignatureClaim
    from quod.zcash.signatures.batch import verify_signatures as verify_signatures
    from quod.zcash.signatures.redjubjub import RedJubjub as RedJubjub
    from quod.zcash.signatures.redjubjub import binding_scheme as binding_scheme
    from quod.zcash.signatures.redjubjub import binding_signature as binding_signature
    from quod.zcash.signatures.redjubjub import spend_auth_scheme as spend_auth_scheme
    from quod.zcash.signatures.redjubjub import (
        spend_auth_signature as spend_auth_signature,
    )
    from quod.zcash.spend_statement import ConvertStatement as ConvertStatement
    from quod.zcash.spend_statement import SpendStatement as SpendStatement
    from quod.zcash.tree.commitment_tree import CommitmentTree as CommitmentTree
    from quod.zcash.tree.path import MerklePath as MerklePath
    from quod.zcash.zip32.extended_keys import ExtendedFullViewingKey as ExtendedFullViewingKey
    from quod.zcash.zip32.extended_keys import ExtendedSpendingKey as ExtendedSpendingKey
else:
    __getattr__, __dir__ = lazy_names(__name__)
