"""Number-theoretic transforms over the scalar fields of the curves.

`NttPlan` transforms arrays in device memory in place; `ntt` takes and gives host values;
`coset_quotient` is what a Groth16 prover makes of its evaluations, `record_coset_quotient` the same
in a recording on a GPU.
"""

from quod.ntt.convenience import ntt
from quod.ntt.ordering import Ordering
from quod.ntt.plan import NttPlan
from quod.ntt.quotient import coset_quotient, record_coset_quotient

__all__ = ["NttPlan", "Ordering", "coset_quotient", "ntt", "record_coset_quotient"]
