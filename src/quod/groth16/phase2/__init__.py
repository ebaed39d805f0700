"""The second phase of a ceremony: a circuit's key from powers of tau, and contributions to it.

The file formats are those of snarkjs. docs/ceremony.md explains how to hold a ceremony. The names
below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.groth16.phase2.imported_contributions import import_bellman as import_bellman
    from quod.groth16.phase2.initial_key import new_key as new_key
    from quod.groth16.phase2.key_update import KeyReceipt as KeyReceipt
    from quod.groth16.phase2.key_update import add_beacon as add_beacon
    from quod.groth16.phase2.key_update import contribute as contribute
    from quod.groth16.phase2.key_verification import VerifiedKey as VerifiedKey
    from quod.groth16.phase2.key_verification import verify_from_init as verify_from_init
    from quod.groth16.phase2.key_verification import verify_from_r1cs as verify_from_r1cs
    from quod.groth16.phase2.known_powers import write_known_powers as write_known_powers
    from quod.groth16.phase2.mpc_parameters import export_bellman as export_bellman
else:
    __getattr__, __dir__ = lazy_names(__name__)
