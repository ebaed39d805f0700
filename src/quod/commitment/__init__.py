"""Commitments to multilinear polynomials, and proofs of their values at points.

`Scheme` is the common interface. `Raw` sends the table itself, `Ligero` uses a code and hashes,
`Hyrax` and `HyperKzg` commit in BN254. None is hiding. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.commitment.hyperkzg import HyperKzg as HyperKzg
    from quod.commitment.hyrax import Hyrax as Hyrax
    from quod.commitment.ligero.scheme import Ligero as Ligero
    from quod.commitment.raw import Raw as Raw
    from quod.commitment.reference_string import ReferenceString as ReferenceString
    from quod.commitment.scheme import Claim as Claim
    from quod.commitment.scheme import Commitment as Commitment
    from quod.commitment.scheme import Committer as Committer
    from quod.commitment.scheme import Scheme as Scheme
else:
    __getattr__, __dir__ = lazy_names(__name__)
