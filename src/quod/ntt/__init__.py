"""Number-theoretic transforms over the scalar fields of the curves.

`NttPlan` transforms arrays in device memory in place; `ntt` takes and gives host values;
`coset_quotient` is what a Groth16 prover makes of its evaluations.
"""

from quod.ntt.convenience import ntt
from quod.ntt.plan import NttPlan, Ordering
from quod.ntt.quotient import coset_quotient

__all__ = ["NttPlan", "Ordering", "coset_quotient", "ntt"]
