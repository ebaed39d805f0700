"""The quotient polynomial of Groth16, as its prover needs it: on a coset, or its coefficients."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from quod.device.memory.buffer import Buffer, host_bytes
from quod.device.runtime.sentinel import not_written
from quod.errors import InputError
from quod.field.array import from_integers, to_integers
from quod.field.cost import product_cost
from quod.field.kernels import field_multiply
from quod.field.moduli import Modulus
from quod.field.roots import quotient_coset_shift
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.ntt.plan import Data, NttPlan, check_data, part_of
from quod.ntt.rows import lanes_of

if TYPE_CHECKING:
    from quod.device.runtime.stream import RecordingStream


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
    _computed(_on_processor, record_coset_quotient, plan, evaluations, out)


def quotient_coefficients(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """The coefficients of h = (a*b - c)/Z where c = a*b on the domain, Z being x**size - 1.

    Arguments are those of `coset_quotient`; `out` becomes canonical integers in bit-reversed order,
    the last of them 0. With the coset's shift g and s = g**size,

        h = (c - d)/(1 - s)    for d with a*b = d modulo x**size - s,

    as a*b = l + x**size * h gives c = l + h and d = l + s*h. So it takes as many transforms as the
    values on a coset: instead of c forwards a*b goes back.

    Errors as for `coset_quotient`, and InputError for elements whose thirds do not begin at
    multiples of 16 bytes.
    """
    _computed(_coefficients_on_processor, record_quotient_coefficients, plan, evaluations, out)


def _computed(
    on_processor: Callable[[NttPlan, Data, Data], None],
    record: Callable[[RecordingStream, NttPlan, Buffer, Buffer], None],
    plan: NttPlan,
    evaluations: Data,
    out: Data,
) -> None:
    """What one of two functions does, by the kind of the plan's device."""
    if plan.device.host_memory:
        on_processor(plan, evaluations, out)
        return
    device = plan.device
    check_data(evaluations, plan.modulus, plan.log2_size, 3)
    given = device.upload(evaluations) if isinstance(evaluations, np.ndarray) else evaluations
    result = device.allocate(out.nbytes, zero=False) if isinstance(out, np.ndarray) else out
    recording = device.stream("quotient").record()
    record(recording, plan, given, result)
    recording.finish().run()
    if isinstance(out, np.ndarray):
        device.download(result, out)


def record_coset_quotient(
    recording: RecordingStream, plan: NttPlan, evaluations: Buffer, out: Buffer, *, batch: int = 1
) -> None:
    """Adds the launches of `coset_quotient` to a recording, on a GPU.

    Of a `batch` all a come first, then all b, and all c; `out` has one result after the other.
    Errors as for `coset_quotient`, and DeviceError on a device whose kernels work in the host's
    memory.
    """
    check_data(out, plan.modulus, plan.log2_size, batch)
    vectors = 3 * batch
    plan.record(recording, "inverse", evaluations, batch=vectors, ordering="NR")
    plan.record(recording, "forward", evaluations, batch=vectors, ordering="RN", coset=_shift(plan))
    modulus, size = plan.modulus, batch * plan.size
    each = size * modulus.bytes
    # What a kernel is given begins at a multiple of this, which b and c of a few elements do not.
    in_one = each % _GPU_ALIGNMENT != 0
    a, b, c = (
        evaluations if in_one else evaluations.slice(i * each, (i + 1) * each) for i in range(3)
    )
    recording.launch(
        plan.device.compile(product_less, modulus=modulus, in_one=in_one),
        -(-size // plan.device.lanes), a, b, c, out, size,
        label="quotient", bytes=4 * each, modmuls=2 * size,
        multiply_adds=2 * size * product_cost(modulus),
    )  # fmt: skip


def record_quotient_coefficients(
    recording: RecordingStream, plan: NttPlan, evaluations: Buffer, out: Buffer, *, batch: int = 1
) -> None:
    """Adds the launches of `quotient_coefficients` to a recording, on a GPU.

    A `batch` is as for `record_coset_quotient`. Errors as for `quotient_coefficients`, and
    DeviceError on a device whose kernels work in the host's memory.
    """
    check_data(out, plan.modulus, plan.log2_size, batch)
    modulus, size = plan.modulus, batch * plan.size
    each = size * modulus.bytes
    if each % _GPU_ALIGNMENT:
        raise InputError(f"{size} elements of {modulus.name} do not fill {_GPU_ALIGNMENT} bytes")
    a, b, c = (evaluations.slice(i * each, (i + 1) * each) for i in range(3))
    device, shift = plan.device, _shift(plan)
    plan.record(recording, "inverse", evaluations, batch=3 * batch, ordering="NR")
    ab = evaluations.slice(0, 2 * each)
    plan.record(recording, "forward", ab, batch=2 * batch, ordering="RN", coset=shift)
    groups = -(-size // device.lanes)
    recording.launch(
        device.compile(field_multiply, spec=modulus), groups, size, a, b, a,
        label="a ∘ b", bytes=3 * each, modmuls=size, multiply_adds=size * product_cost(modulus),
    )  # fmt: skip
    plan.record(recording, "inverse", a, batch=batch, ordering="NR", coset=shift)
    weights = device.upload(from_integers(modulus, _differences(plan, 1, 1)))
    recording.launch(
        device.compile(quotient_difference, modulus=modulus), groups, c, a, out, weights, size,
        label="quotient", bytes=3 * each, modmuls=2 * size,
        multiply_adds=2 * size * product_cost(modulus),
    )  # fmt: skip


def _differences(plan: NttPlan, c_scale: int, d_scale: int) -> tuple[int, int]:
    """The weights of c and d, each so many times too large, to canonical integers."""
    p, size = plan.modulus.value, plan.size
    plain = pow((1 - pow(_shift(plan), size, p)) * plan.modulus.montgomery_radix, -1, p)
    return plain * pow(c_scale, -1, p) % p, -plain * pow(d_scale, -1, p) % p


def _coefficients_on_processor(plan: NttPlan, evaluations: Data, out: Data) -> None:
    modulus, size, shift, device = plan.modulus, plan.size, _shift(plan), plan.device
    check_data(evaluations, modulus, plan.log2_size, 3)
    check_data(out, modulus, plan.log2_size, 1)
    each = size * modulus.bytes
    a, b, c = (part_of(evaluations, index * each, (index + 1) * each) for index in range(3))
    plan.inverse(evaluations, batch=3, ordering="NR", scaled=False)
    plan.forward(part_of(evaluations, 0, 2 * each), batch=2, ordering="RN", coset=shift)
    left, right = _last(modulus, a), _last(modulus, b)
    device.launch(
        device.compile(field_multiply, spec=modulus), -(-size // device.lanes), size, a, b, a
    )  # fmt: skip
    if _last(modulus, a) != left * right % modulus.value:
        raise not_written(device, "the products of a quotient")
    plan.inverse(a, ordering="NR", coset=shift, scaled=False)
    factors = _differences(plan, size, size**3)
    last = _last(modulus, c), _last(modulus, a)
    lanes = lanes_of(device, modulus)
    device.launch(
        device.compile(quotient_difference, lanes=lanes, modulus=modulus), -(-size // lanes),
        c, a, out, from_integers(modulus, factors), size,
    )  # fmt: skip
    if _last(modulus, out) != sum(map(operator.mul, factors, last)) % modulus.value:
        raise not_written(device, "the coefficients of a quotient")


def _last(modulus: Modulus, data: Data) -> int:
    """The last element of an array in Montgomery form."""
    (found,) = to_integers(modulus, host_bytes(data).view(np.uint32)[None, -modulus.words :])
    return found


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
def quotient_difference(
    k: Builder,
    a: Pointer[U32],
    b: Pointer[U32],
    out: Pointer[U32],
    weights: Pointer[U32],
    count: U64,
    *,
    modulus: Modulus,
) -> None:
    """out[i] = weights[0] * a[i] + weights[1] * b[i], in Montgomery form all of them."""
    f = prime_field(k, modulus)
    i = k.global_id().cast(types.u64)
    with k.if_(i < count):
        terms = [(f.load(part, i), f.load(weights, place)) for place, part in enumerate((a, b))]
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
