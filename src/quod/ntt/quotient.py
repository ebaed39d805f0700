"""The quotient polynomial of Groth16, as its prover needs it: evaluated on a coset."""

from __future__ import annotations

from quod.curve.parameters import quotient_coset_shift
from quod.field.array import from_integers
from quod.ntt.plan import Data, NttPlan, check_data, curve_of, part_of
from quod.ntt.reorder import quotient_scalars


def coset_quotient(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """The scalars a(x)*b(x) - c(x) for every x of the coset on which a prover divides by Z.

    `evaluations` holds a, b and c on the domain <w>, natural order, Montgomery form: uint32 of
    shape (3, size, words); it is used up. `out`, of shape (size, words), becomes canonical
    integers, not in Montgomery form, in natural order; it may be the memory of a. The coset is
    snarkjs's (the odd powers of the root of order 2*size) or, with a plan of the family arkworks,
    the one of the field's generator, which arkworks and bellman use; see `quotient_coset_shift`.

    Each polynomial goes by an inverse transform to bit-reversed coefficients and by a forward one
    back from there, so that nothing is ever permuted; 1/size is left to the last step.

    InputError if a length is wrong.
    """
    modulus, size, p = plan.modulus, plan.size, plan.modulus.value
    check_data(out, modulus, plan.log2_size, 1)
    plan.inverse(evaluations, batch=3, ordering="NR", scaled=False)
    shift = quotient_coset_shift(curve_of(modulus), plan.family, plan.log2_size)
    plan.forward(evaluations, batch=3, ordering="RN", coset=shift)
    scale, plain = pow(size, -1, p), pow(modulus.montgomery_radix, -1, p)
    weights = from_integers(modulus, [scale * scale * plain, -scale * plain])
    each = size * modulus.bytes
    parts = [part_of(evaluations, index * each, (index + 1) * each) for index in range(3)]
    plan.device.launch(
        plan.device.compile(quotient_scalars, modulus=modulus), -(-size // plan.device.lanes),
        *parts, out, weights, size,
    )  # fmt: skip
