"""Operations of key generation on arrays of field elements: Lagrange polynomials, weighted sums.

The kernels evaluate all Lagrange polynomials of a domain at a point, scale arrays and add them.
"""

from __future__ import annotations

from itertools import accumulate, repeat

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words, from_integers, integers_to_words
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.ntt.ordering import reversed_value

# The least number of elements that share one inversion.
_MIN_BATCH = 64

# About the largest number of batches, for each of which the host computes the first x; enough to
# fill any GPU.
_MAX_STARTS = 1 << 17


@kernel
def lagrange_values(
    k: Builder,
    count: U32,
    batch: U32,
    constants: Pointer[U64],
    starts: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """out[i] = scale * x[i] / (point - x[i]), canonical; x[i + 1] = root * x[i].

    constants: point, root, 1/root and scale.
    starts: the x of each instance's first element. An instance computes `batch` consecutive
        elements with one inversion.
    """
    f = prime_field(k, modulus)
    point, root, inverse_root, scale = (f.load(constants, index) for index in range(4))
    instance = k.global_id()
    begin = instance * batch
    end = k.minimum(begin + batch, count)
    with k.if_(begin < end):
        start = (f.bounded(f.load(starts, instance)), f.bounded(f.one()))
        with k.range(begin, end, carry=start) as forward:
            # out[i] = the product of point - x over the earlier elements of the batch.
            x, product = forward.carried
            f.store(out, forward.index, product)
            forward.next((f.bounded(x * root), f.bounded(product * (point - x))))
        next_x, product = forward.results
        state = (f.bounded(next_x * inverse_root), f.bounded(f.inverse(product) * scale))
        # Times 1/R, the results are canonical instead of in Montgomery form.
        inverse_radix = f.constant(pow(modulus.montgomery_radix, -1, modulus.value))
        with k.range(begin, end, carry=state) as backward:
            x, inverse = backward.carried
            i = end - 1 - (backward.index - begin)
            f.store(out, i, f.load(out, i) * inverse * x * inverse_radix)
            backward.next((f.bounded(x * inverse_root), f.bounded(inverse * (point - x))))


@kernel
def scale_elements(
    k: Builder, count: U32, a: Pointer[U64], out: Pointer[U64], *, modulus: Modulus, factor: int
) -> None:
    """out[i] = factor * a[i]; both are canonical, or both in Montgomery form."""
    f = prime_field(k, modulus)
    i = k.global_id()
    with k.if_(i < count):
        f.store(out, i, f.load(a, i, linear=True) * f.constant(factor))


@kernel
def weighted_sums(
    k: Builder,
    count: U32,
    weights: Pointer[U64],
    a: Pointer[U64],
    b: Pointer[U64],
    c: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """out[i] = weights[0] * a[i] + weights[1] * b[i] + weights[2] * c[i].

    `weights` is in Montgomery form; `out` has the form of a, b and c.
    """
    f = prime_field(k, modulus)
    i = k.global_id()
    factors = [f.load(weights, index) for index in range(3)]
    with k.if_(i < count):
        products = [
            factor * f.load(array, i, linear=True) for factor, array in zip(factors, (a, b, c))
        ]
        f.store(out, i, products[0] + products[1] + products[2])


@kernel
def monomial_values(
    k: Builder,
    batch: U32,
    constants: Pointer[U64],
    starts: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
    log2: int,
) -> None:
    """Each lane writes `batch` values: out[reversed(i)] = starts[lane] * point**j, canonical.

    i is lane * batch + j, `reversed` reverses its `log2` bits. `constants` is the point in
    Montgomery form, `starts` has canonical values.
    """
    f = prime_field(k, modulus)
    lane = k.global_id()
    point, begin = f.load(constants, 0), lane * batch
    with k.if_(begin < 1 << log2):
        start = f.bounded(f.load(starts, lane, linear=True))
        with k.range(0, batch, carry=start) as loop:
            f.store(out, reversed_value(begin + loop.index, log2), loop.carried)
            loop.next(f.bounded(loop.carried * point))


def monomials_at(device: AnyDevice, modulus: Modulus, log2: int, point: int, first: int) -> Words:
    """Return first * point**i for i < 2**log2, canonical and in bit-reversed order."""
    out = unwritten(1 << log2, modulus.words)
    monomials_into(device, modulus, out, log2, point, first)
    check_written(device, "monomials", out)
    return out


def monomials_into(
    device: AnyDevice, modulus: Modulus, out: Words | Buffer, log2: int, point: int, first: int
) -> None:
    """Write first * point**i for i < 2**log2, canonical and in bit-reversed order."""
    p, count = modulus.value, 1 << log2
    lanes = min(count, _MAX_STARTS)
    batch = count // lanes
    step = pow(point, batch, p)
    starts = integers_to_words(
        modulus, accumulate(repeat(step, lanes - 1), lambda x, y: x * y % p, initial=first % p)
    )
    device.launch(
        device.compile(monomial_values, modulus=modulus, log2=log2), -(-lanes // device.lanes),
        batch, from_integers(modulus, [point]), starts, out,
    )  # fmt: skip


def lagrange_at(
    device: AnyDevice,
    modulus: Modulus,
    *,
    count: int,
    root: int,
    shift: int,
    point: int,
    scale: int,
) -> Words:
    """Return scale * x / (point - x) for x = shift * root**i and i < count.

    The result is canonical, of shape (count, words). `point` must differ from every x.
    """
    out = unwritten(count, modulus.words)
    lagrange_into(
        device, modulus, out, count=count, root=root, shift=shift, point=point, scale=scale
    )
    check_written(device, "Lagrange polynomials", out)
    return out


def lagrange_into(
    device: AnyDevice,
    modulus: Modulus,
    out: Words | Buffer,
    *,
    count: int,
    root: int,
    shift: int,
    point: int,
    scale: int,
) -> None:
    """Write the result of `lagrange_at` to an array or a device's buffer."""
    p, batch = modulus.value, max(_MIN_BATCH, count // _MAX_STARTS)
    step, x, starts = pow(root, batch, p), shift % p, []
    for _ in range(-(-count // batch)):
        starts.append(x)
        x = x * step % p
    constants = (point, root, pow(root, -1, p), scale)
    device.launch(
        device.compile(lagrange_values, modulus=modulus),
        -(-len(starts) // device.lanes),
        count,
        batch,
        from_integers(modulus, constants),
        from_integers(modulus, starts),
        out,
    )


def scaled(device: AnyDevice, modulus: Modulus, array: Words, factor: int) -> Words:
    """Return factor * array[i] for every element, in the array's form; shape (n, words)."""
    array = np.ascontiguousarray(array)
    out = unwritten(*array.shape)
    compiled = device.compile(scale_elements, modulus=modulus, factor=factor % modulus.value)
    device.launch(compiled, -(-len(array) // device.lanes), len(array), array, out)
    check_written(device, "scaled elements", out)
    return out


def weighted_sum(
    device: AnyDevice, modulus: Modulus, weights: tuple[int, int, int], a: Words, b: Words, c: Words
) -> Words:
    """Return weights[0]*a + weights[1]*b + weights[2]*c, in the form of these (n, words) arrays."""
    out = unwritten(*a.shape)
    device.launch(
        device.compile(weighted_sums, modulus=modulus),
        -(-len(a) // device.lanes),
        len(a),
        from_integers(modulus, weights),
        *map(np.ascontiguousarray, (a, b, c)),
        out,
    )
    check_written(device, "weighted sums", out)
    return out
