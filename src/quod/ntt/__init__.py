"""Number-theoretic transforms over the scalar fields of the curves.

`NttPlan` transforms arrays in place; `ntt` takes and returns host values; `coset_quotient` computes
the quotient of a Groth16 prover, and `record_coset_quotient` records it on a GPU. The names below
load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.ntt.convenience import ntt as ntt
    from quod.ntt.ordering import Ordering as Ordering
    from quod.ntt.plan import NttPlan as NttPlan
    from quod.ntt.quotient import coset_quotient as coset_quotient
    from quod.ntt.quotient import record_coset_quotient as record_coset_quotient
else:
    __getattr__, __dir__ = lazy_names(__name__)
