"""Lookups: proofs that all values of some columns are in a table, or in a range.

`prove` runs on any device. `verify` reduces a `Statement` to evaluation claims about the columns,
the multiplicities and the table, which the caller checks; `prove_committed` and `verify_committed`
do so with a commitment scheme. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.lookup.columns import Affine as Affine
    from quod.lookup.committed import prove_committed as prove_committed
    from quod.lookup.committed import verify_committed as verify_committed
    from quod.lookup.prover import LookupProof as LookupProof
    from quod.lookup.prover import multiplicities as multiplicities
    from quod.lookup.prover import prove as prove
    from quod.lookup.statement import AffineForm as AffineForm
    from quod.lookup.statement import Range as Range
    from quod.lookup.statement import Statement as Statement
    from quod.lookup.statement import Table as Table
    from quod.lookup.statement import error_terms as error_terms
    from quod.lookup.verifier import Reduced as Reduced
    from quod.lookup.verifier import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
