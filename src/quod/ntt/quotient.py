"""The quotient polynomial of Groth16: its values on a coset, or its coefficients."""

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
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types
from quod.ntt.plan import Data, NttPlan, check_data, part_of
from quod.ntt.rows import lanes_of

if TYPE_CHECKING:
    from quod.device.runtime.stream import RecordingStream
    from quod.kernel.builder.builder import Builder


_GPU_ALIGNMENT = 16  # bytes


def coset_quotient(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """Compute a(x)*b(x) - c(x) for every x of the coset on which a prover divides by Z.

    evaluations: a, b and c on the domain <w>, in natural order and Montgomery form, uint32 of shape
        (3, size, words); overwritten.
    out: receives canonical integers, not in Montgomery form, in natural order: uint32 of shape
        (size, words). May be the memory of a.

    The coset is the one of snarkjs (odd powers of the root of order 2*size), or for a plan of the
    family arkworks the one of the field's generator, as in arkworks and bellman; see
    `quotient_coset_shift`.

    Each polynomial is transformed to bit-reversed coefficients and back, so no step permutes data.
    A CPU multiplies by 1/size in the last step; on a GPU the tables between passes include that
    factor, at no cost.

    Raises InputError for a wrong length.
    """
    _run(_scalars_on_cpu, record_coset_quotient, plan, evaluations, out)


def quotient_coefficients(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """Compute the coefficients of h = (a*b - c)/Z for Z = x**size - 1 and c = a*b on the domain.

    The arguments are those of `coset_quotient`; `out` receives canonical integers in bit-reversed
    order, the last of them 0. With the coset's shift g and s = g**size,

        h = (c - d)/(1 - s)    for d = a*b modulo x**size - s,

    since a*b = l + x**size * h, with l of degree below size, and x**size is 1 on the domain and s
    on the coset: so c = l + h and d = l + s*h. This takes as many transforms as
    `coset_quotient`: a*b is interpolated instead of evaluating c.

    Raises the errors of `coset_quotient`, and on a GPU InputError if b and c would not begin at
    multiples of 16 bytes.
    """
    _run(_coefficients_on_cpu, record_quotient_coefficients, plan, evaluations, out)


def _run(
    on_cpu: Callable[[NttPlan, Data, Data], None],
    record: Callable[[RecordingStream, NttPlan, Buffer, Buffer], None],
    plan: NttPlan,
    evaluations: Data,
    out: Data,
) -> None:
    """Run `on_cpu` on a device that computes in host memory, else record and run `record`."""
    if plan.device.host_memory:
        on_cpu(plan, evaluations, out)
        return
    device = plan.device
    check_data(evaluations, plan.modulus, plan.log2_size, 3)
    inputs = device.upload(evaluations) if isinstance(evaluations, np.ndarray) else evaluations
    result = device.allocate(out.nbytes, zero=False) if isinstance(out, np.ndarray) else out
    recording = device.stream("quotient").record()
    record(recording, plan, inputs, result)
    recording.finish().run()
    if isinstance(out, np.ndarray):
        device.download(result, out)


def record_coset_quotient(
    recording: RecordingStream, plan: NttPlan, evaluations: Buffer, out: Buffer, *, batch: int = 1
) -> None:
    """Record the launches of `coset_quotient` on a GPU.

    batch: number of quotients; `evaluations` has all a, then all b, then all c, and `out` all
        results.

    Raises the errors of `coset_quotient`, and DeviceError on a device that computes in host memory.
    """
    check_data(out, plan.modulus, plan.log2_size, batch)
    vectors, scaled = 3 * batch, not plan.prefers_unscaled
    plan.record(
        recording, "inverse", evaluations, batch=vectors, ordering="NR", scaled=scaled
    )  # fmt: skip
    plan.record(
        recording, "forward", evaluations, batch=vectors, ordering="RN", coset=_coset_shift(plan)
    )
    modulus, size = plan.modulus, batch * plan.size
    vector_bytes = size * modulus.bytes
    # Kernel arguments begin at multiples of this, which b and c of a few elements do not.
    in_one = vector_bytes % _GPU_ALIGNMENT != 0
    a, b, c = (
        evaluations if in_one else evaluations.slice(i * vector_bytes, (i + 1) * vector_bytes)
        for i in range(3)
    )
    recording.launch(
        plan.device.compile(
            product_less, modulus=modulus, in_one=in_one, scale=1 if scaled else plan.size
        ),
        -(-size // plan.device.lanes), a, b, c, out, size,
        label="quotient", bytes=4 * vector_bytes, modmuls=2 * size,
        multiply_adds=2 * size * product_cost(modulus),
    )  # fmt: skip


def record_quotient_coefficients(
    recording: RecordingStream, plan: NttPlan, evaluations: Buffer, out: Buffer, *, batch: int = 1
) -> None:
    """Record the launches of `quotient_coefficients` on a GPU.

    See `record_coset_quotient` for `batch`. Raises the errors of `quotient_coefficients`, and
    DeviceError on a device that computes in host memory.
    """
    check_data(out, plan.modulus, plan.log2_size, batch)
    modulus, size = plan.modulus, batch * plan.size
    vector_bytes = size * modulus.bytes
    if vector_bytes % _GPU_ALIGNMENT:
        raise InputError(f"{size} elements of {modulus.name} do not fill {_GPU_ALIGNMENT} bytes")
    a, b, c = (evaluations.slice(i * vector_bytes, (i + 1) * vector_bytes) for i in range(3))
    device, shift, scaled = plan.device, _coset_shift(plan), not plan.prefers_unscaled
    plan.record(
        recording, "inverse", evaluations, batch=3 * batch, ordering="NR", scaled=scaled
    )  # fmt: skip
    ab = evaluations.slice(0, 2 * vector_bytes)
    plan.record(recording, "forward", ab, batch=2 * batch, ordering="RN", coset=shift)
    workgroups = -(-size // device.lanes)
    recording.launch(
        device.compile(field_multiply, spec=modulus), workgroups, size, a, b, a,
        label="a ∘ b", bytes=3 * vector_bytes, modmuls=size,
        multiply_adds=size * product_cost(modulus),
    )  # fmt: skip
    plan.record(
        recording, "inverse", a, batch=batch, ordering="NR", coset=shift, scaled=scaled
    )  # fmt: skip
    scales = (1, 1) if scaled else (plan.size, plan.size**3)
    weights = device.upload(from_integers(modulus, _difference_weights(plan, *scales)))
    recording.launch(
        device.compile(quotient_difference, modulus=modulus), workgroups, c, a, out, weights, size,
        label="quotient", bytes=3 * vector_bytes, modmuls=2 * size,
        multiply_adds=2 * size * product_cost(modulus),
    )  # fmt: skip


def _difference_weights(plan: NttPlan, c_scale: int, d_scale: int) -> tuple[int, int]:
    """Return the weights of c and d for a canonical result.

    c_scale, d_scale: factors by which c and d are too large.
    """
    p, size = plan.modulus.value, plan.size
    factor = pow((1 - pow(_coset_shift(plan), size, p)) * plan.modulus.montgomery_radix, -1, p)
    return factor * pow(c_scale, -1, p) % p, -factor * pow(d_scale, -1, p) % p


def _coefficients_on_cpu(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """Compute `quotient_coefficients`.

    The last element of each result is computed again here, to detect launches that did not run.
    """
    modulus, size, shift, device = plan.modulus, plan.size, _coset_shift(plan), plan.device
    check_data(evaluations, modulus, plan.log2_size, 3)
    check_data(out, modulus, plan.log2_size, 1)
    vector_bytes = size * modulus.bytes
    a, b, c = (
        part_of(evaluations, index * vector_bytes, (index + 1) * vector_bytes) for index in range(3)
    )
    plan.inverse(evaluations, batch=3, ordering="NR", scaled=False)
    plan.forward(part_of(evaluations, 0, 2 * vector_bytes), batch=2, ordering="RN", coset=shift)
    last_of_a, last_of_b = _last_element(modulus, a), _last_element(modulus, b)
    device.launch(
        device.compile(field_multiply, spec=modulus), -(-size // device.lanes), size, a, b, a
    )  # fmt: skip
    if _last_element(modulus, a) != last_of_a * last_of_b % modulus.value:
        raise not_written(device, "the products of a quotient")
    plan.inverse(a, ordering="NR", coset=shift, scaled=False)
    # Each unscaled inverse transform multiplies by `size`: once for c, and for d in a, b and a*b.
    factors = _difference_weights(plan, size, size**3)
    last_elements = _last_element(modulus, c), _last_element(modulus, a)
    lanes = lanes_of(device, modulus)
    device.launch(
        device.compile(quotient_difference, lanes=lanes, modulus=modulus), -(-size // lanes),
        c, a, out, from_integers(modulus, factors), size,
    )  # fmt: skip
    if (
        _last_element(modulus, out)
        != sum(map(operator.mul, factors, last_elements)) % modulus.value
    ):
        raise not_written(device, "the coefficients of a quotient")


def _last_element(modulus: Modulus, data: Data) -> int:
    """Return the last element of an array in Montgomery form, as an integer."""
    (integer,) = to_integers(modulus, host_bytes(data).view(np.uint32)[None, -modulus.words :])
    return integer


def _coset_shift(plan: NttPlan) -> int:
    return quotient_coset_shift(plan.modulus, plan.family, plan.log2_size)


def _scalars_on_cpu(plan: NttPlan, evaluations: Data, out: Data) -> None:
    """Compute `coset_quotient`."""
    modulus, size, p = plan.modulus, plan.size, plan.modulus.value
    check_data(out, modulus, plan.log2_size, 1)
    plan.inverse(evaluations, batch=3, ordering="NR", scaled=False)
    plan.forward(evaluations, batch=3, ordering="RN", coset=_coset_shift(plan))
    scale, inverse_radix = pow(size, -1, p), pow(modulus.montgomery_radix, -1, p)
    # a, b and c are `size` times too large, and the results are not in Montgomery form.
    factors = scale * scale * inverse_radix, -scale * inverse_radix
    weights = from_integers(modulus, factors)
    vector_bytes = size * modulus.bytes
    vectors = [
        part_of(evaluations, index * vector_bytes, (index + 1) * vector_bytes) for index in range(3)
    ]
    # `out` may overlap a vector, so a sentinel is impossible: the last scalar is recomputed
    # instead.
    last_elements = [
        host_bytes(array).view(np.uint32)[-modulus.words :] for array in (*vectors, out)
    ]
    a, b, c = to_integers(modulus, np.stack(last_elements[:3]))
    lanes = lanes_of(plan.device, modulus)
    plan.device.launch(
        plan.device.compile(quotient_scalars, lanes=lanes, modulus=modulus), -(-size // lanes),
        *vectors, out, weights, size,
    )  # fmt: skip
    (scalar,) = to_integers(modulus, last_elements[3][None])
    if scalar != (factors[0] * a * b + factors[1] * c) % p:
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
    """Compute out[i] = weights[0] * a[i] * b[i] + weights[1] * c[i], all in Montgomery form."""
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
    """Compute out[i] = weights[0] * a[i] + weights[1] * b[i], all in Montgomery form."""
    f = prime_field(k, modulus)
    i = k.global_id().cast(types.u64)
    with k.if_(i < count):
        terms = [(f.load(vector, i), f.load(weights, index)) for index, vector in enumerate((a, b))]
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
    scale: int = 1,
) -> None:
    """Compute out[i] = a[i] * b[i] - c[i], from Montgomery form to canonical integers.

    scale: a factor by which a, b and c are too large.
    in_one: pass one array of all a, then all b, then all c as each of the three arguments.
    """
    f = prime_field(k, modulus)
    i = k.global_id().cast(types.u64)
    factor = f.constant(pow(modulus.montgomery_radix * scale**2, -1, modulus.value))
    with k.if_(i < count):
        b_index, c_index = (i + count, i + count * 2) if in_one else (i, i)
        less = f.load(c, c_index)
        if scale != 1:
            less = less * f.constant(scale)
        difference = f.load(a, i) * f.load(b, b_index) - less
        f.store(out, i, difference * factor)
