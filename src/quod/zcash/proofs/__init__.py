"""Proofs of Sapling and MASP: their kinds, parameters, provers, verification and files.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.proofs.description import Description as Description
    from quod.zcash.proofs.description import decode_descriptions as decode_descriptions
    from quod.zcash.proofs.infos import ConvertInfo as ConvertInfo
    from quod.zcash.proofs.infos import OutputInfo as OutputInfo
    from quod.zcash.proofs.infos import SpendInfo as SpendInfo
    from quod.zcash.proofs.kinds import KINDS as KINDS
    from quod.zcash.proofs.kinds import MASP_CONVERT as MASP_CONVERT
    from quod.zcash.proofs.kinds import MASP_OUTPUT as MASP_OUTPUT
    from quod.zcash.proofs.kinds import MASP_SPEND as MASP_SPEND
    from quod.zcash.proofs.kinds import SAPLING_OUTPUT as SAPLING_OUTPUT
    from quod.zcash.proofs.kinds import SAPLING_SPEND as SAPLING_SPEND
    from quod.zcash.proofs.kinds import ProofKind as ProofKind
    from quod.zcash.proofs.parameters import make_test_parameters as make_test_parameters
    from quod.zcash.proofs.parameters import read_verifying_key as read_verifying_key
    from quod.zcash.proofs.prover import Prover as Prover
    from quod.zcash.proofs.sapling_keys import sapling_verifying_keys as sapling_verifying_keys
    from quod.zcash.proofs.verification import VerifyingKeys as VerifyingKeys
    from quod.zcash.proofs.verification import verify_description as verify_description
    from quod.zcash.proofs.verification import verify_descriptions as verify_descriptions
else:
    __getattr__, __dir__ = lazy_names(__name__)
