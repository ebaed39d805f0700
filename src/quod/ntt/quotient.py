"""The quotient polynomial of Groth16, as its prover needs it: evaluated on a coset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quod.device.buffer import Buffer, host_bytes
from quod.device.written import not_written
from quod.field.array import from_integers, to_integers
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.field.roots import quotient_coset_shift
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel, types
from quod.ntt.plan import Data, NttPlan, check_data, part_of
from quod.ntt.rows import lanes_of
from quod.validation import instance

if TYPE_CHECKING:
    from quod.device.stream import RecordingStream


_GPU_ALIGNMENT = 16


def coset_quotient(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """The scalars a(x)*b(x) - c(x) for every x of the coset on which a prover divides by Z.

    `evaluations` holds a, b and c on the domain <w>, natural order, Montgomery form: uint32 of
    shape (3, size, words); it is used up. `out`, of shape (size, words), becomes canonical
    integers, not in Montgomery form, in natural order; it may be the memory of a. The coset is
    snarkjs's (the odd powers of the root of order 2*size) or, with a plan of the family arkworks,
    the one of the field's generator, which arkworks and bellman use; see `quotient_coset_shift`.

    Each polynomial goes by an inverse transform to bit-reversed coefficients and by a forward one
    back from there, so that nothing is ever permuted. On a processor 1/size is left to the last
    step; on a GPU it is in the tables between passes, where it costs nothing.

    InputError if a length is wrong.
    """
    instance("plan", plan, NttPlan, "make one")
    if plan.device.host_memory:
        _on_processor(plan, evaluations, out)
        return
    device = plan.device
    check_data(evaluations, plan.modulus, plan.log2_size, 3)
    given = device.upload(evaluations) if isinstance(evaluations, np.ndarray) else evaluations
    result = device.allocate(out.nbytes, zero=False) if isinstance(out, np.ndarray) else out
    recording = device.stream("quotient").record()
    record_coset_quotient(recording, plan, given, result)
    recording.finish().submit().wait()
    if isinstance(out, np.ndarray):
        device.download(result, out)


def record_coset_quotient(
    recording: RecordingStream, plan: NttPlan, evaluations: Buffer, out: Buffer
) -> None:
    """Adds the launches of `coset_quotient` to a recording, on a GPU.

    Errors as for `coset_quotient`, and DeviceError on a device whose kernels work in the host's
    memory.
    """
    instance("plan", plan, NttPlan, "make one")
    check_data(out, plan.modulus, plan.log2_size, 1)
    plan.record(recording, "inverse", evaluations, batch=3, ordering="NR")
    plan.record(recording, "forward", evaluations, batch=3, ordering="RN", coset=_shift(plan))
    modulus, each = plan.modulus, plan.size * plan.modulus.bytes
    # What a kernel is given begins at a multiple of this, which b and c of a few elements do not.
    in_one = each % _GPU_ALIGNMENT != 0
    a, b, c = (
        evaluations if in_one else evaluations.slice(i * each, (i + 1) * each) for i in range(3)
    )
    recording.launch(
        plan.device.compile(product_less, modulus=modulus, in_one=in_one),
        -(-plan.size // plan.device.lanes), a, b, c, out, plan.size,
        label="quotient", bytes=4 * each, modmuls=2 * plan.size,
        multiply_adds=2 * plan.size * product_cost(modulus),
    )  # fmt: skip


def _shift(plan: NttPlan) -> int:
    return quotient_coset_shift(plan.modulus, plan.family, plan.log2_size)


def _on_processor(plan: NttPlan, evaluations: Data, out: Data) -> None:
    modulus, size, p = plan.modulus, plan.size, plan.modulus.value
    check_data(out, modulus, plan.log2_size, 1)
    plan.inverse(evaluations, batch=3, ordering="NR", scaled=False)
    plan.forward(evaluations, batch=3, ordering="RN", coset=_shift(plan))
    scale, plain = pow(size, -1, p), pow(modulus.montgomery_radix, -1, p)
    factors = scale * scale * plain, -scale * plain
    weights = from_integers(modulus, factors)
    each = size * modulus.bytes
    parts = [part_of(evaluations, index * each, (index + 1) * each) for index in range(3)]
    # `out` may be one of the parts, so that the last scalar has to be the right one.
    last = [host_bytes(own).view(np.uint32)[-modulus.words :] for own in (*parts, out)]
    a, b, c = to_integers(modulus, np.stack(last[:3]))
    lanes = lanes_of(plan.device, modulus)
    plan.device.launch(
        plan.device.compile(quotient_scalars, lanes=lanes, modulus=modulus), -(-size // lanes),
        *parts, out, weights, size,
    )  # fmt: skip
    (found,) = to_integers(modulus, last[3][None])
    if found != (factors[0] * a * b + factors[1] * c) % p:
        raise not_written(plan.device, "the scalars of a quotient")


@kernel
def quotient_scalars(
    k: Builder,
    a: Pointer[U32],
    b: Pointer[U32],
    c: Pointer[U32],
    out: Pointer[U32],
    weights: Pointer[U32],
    count: U64,
    *,
    modulus: Modulus,
) -> None:
    """out[i] = weights[0] * a[i] * b[i] + weights[1] * c[i], in Montgomery form all of them."""
    f = prime_field(k, modulus)
    i = k.minimum(k.global_id().cast(types.u64), count - 1)
    product = f.load(a, i) * f.load(b, i)
    terms = [(product, f.load(weights, 0)), (f.load(c, i), f.load(weights, 1))]
    first, second = f.multiply_many(terms)
    f.store(out, i, first + second)


@kernel
def product_less(
    k: Builder,
    a: Pointer[U32],
    b: Pointer[U32],
    c: Pointer[U32],
    out: Pointer[U32],
    count: U64,
    *,
    modulus: Modulus,
    in_one: bool = False,
) -> None:
    """out[i] = a[i] * b[i] - c[i], of elements in Montgomery form to integers below p.

    With `in_one` each of a, b and c is the array of all three, one behind the other.
    """
    f = prime_field(k, modulus)
    i = k.global_id().cast(types.u64)
    plain = f.constant(pow(modulus.montgomery_radix, -1, modulus.value))
    with k.if_(i < count):
        of_b, of_c = (i + count, i + count * 2) if in_one else (i, i)
        difference = f.load(a, i) * f.load(b, of_b) - f.load(c, of_c)
        f.store(out, i, difference * plain)
