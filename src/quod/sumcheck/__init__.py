"""The sumcheck protocol: reduce a sum over the Boolean hypercube to values at one point.

`SumOfProducts` is the polynomial. `prove` sums it over tables and proves the sum on any device;
`verify` reduces a `Statement` to values of the tables at one point, which the caller checks.
`SumcheckPlan` records batches of sumchecks over tables in device memory. The names below load on
first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.sumcheck.plan import Inputs as Inputs
    from quod.sumcheck.plan import SumcheckPlan as SumcheckPlan
    from quod.sumcheck.polynomial import SumOfProducts as SumOfProducts
    from quod.sumcheck.prover import SumcheckProof as SumcheckProof
    from quod.sumcheck.prover import prove as prove
    from quod.sumcheck.shape import Shape as Shape
    from quod.sumcheck.verifier import Reduced as Reduced
    from quod.sumcheck.verifier import Statement as Statement
    from quod.sumcheck.verifier import error_terms as error_terms
    from quod.sumcheck.verifier import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
