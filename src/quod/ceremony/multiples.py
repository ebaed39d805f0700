"""Multiples of arrays of points by secret scalars, and the powers of a secret."""

from __future__ import annotations

import numpy as np

from quod.ceremony.secret import Secret, device_copy, wiped
from quod.curve.array import check_points_array
from quod.curve.group import Group
from quod.curve.multiples.subgroup_multiples import multiple_of_point
from quod.curve.weierstrass.operations import normalise_within
from quod.curve.weierstrass.point import PointArithmetic
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types

_MAX_RUN = 64
# The largest exponent start + i has at most this many bits.
_EXPONENT_BITS = 40


@kernel
def scalar_powers(
    k: Builder,
    count: U32,
    run: U32,
    start: U64,
    first: Pointer[U64],
    base: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Set out[i] = first * base**(start + i), canonical; an instance computes `run` of them."""
    f, instance = prime_field(k, modulus), k.global_id()
    radix = modulus.montgomery_radix
    to_montgomery, inverse_radix = f.constant(radix), f.constant(pow(radix, -1, modulus.value))
    begin = instance * run
    end = k.minimum(begin + run, count)
    with k.if_(begin < end):
        step = f.bounded(f.load(base, 0) * to_montgomery)
        exponent = start + begin.cast(types.u64)
        state = (f.bounded(f.load(first, 0) * to_montgomery), step, exponent)
        with k.range(0, _EXPONENT_BITS, carry=state) as loop:
            value, square, remaining = loop.carried
            product = f.bounded(value * square)
            value = f.select(remaining & 1 == 1, product, value)
            loop.next((value, f.bounded(f.square(square)), remaining >> 1))
        with k.range(begin, end, carry=loop.results[0]) as powers:
            f.store(out, powers.index, powers.carried * inverse_radix)
            powers.next(f.bounded(powers.carried * step))


@kernel
def scalar_multiples(
    k: Builder,
    count: U32,
    points: Pointer[U64],
    scalars: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Set out[i] = scalars[i] * points[i], from affine to extended points of prime order.

    The instructions and memory accesses do not depend on the scalars, which are integers below r.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    multiple = multiple_of_point(k, curve, points, scalars)
    with k.if_(i < count):
        curve.store_extended(out, i, multiple(i))


def powers_of(secret: Secret, first: Secret | None, start: int, out: Words) -> None:
    """Set out[i] = first * secret**(start + i), canonical, uint32 of shape (n, words).

    first: a factor; None for 1.
    The powers reveal the secret, so the caller must wipe `out`.
    """
    modulus, count = secret.modulus, len(out)
    one_words = np.zeros(modulus.words, np.uint32)
    one_words[0] = 1
    # Powers are little work compared with multiples. On the host, only `out` has to be wiped.
    host = resolve_device("cpu")
    run = max(1, min(_MAX_RUN, -(-count // host.lanes)))
    host.launch(
        host.compile(scalar_powers, modulus=modulus),
        -(-count // (run * host.lanes)), count, run, start,
        one_words if first is None else first.words, secret.words, out,
    )  # fmt: skip


def secret_multiples(device: AnyDevice, group: Group, points: Words, scalars: Words) -> Words:
    """Return scalars[i] * points[i], affine.

    scalars: uint32 of shape (n, words), or (1, words) for one scalar for all points. They must be
        below r, and points in the subgroup of order r; otherwise results are wrong.
    The copies of scalars and the intermediate values are overwritten on host and device; the caller
    must wipe `scalars`. Raises DeviceError if the device did not write the results.
    """
    check_points_array(group, points)
    count = len(points)
    if not count:
        return points.copy()
    scalar_rows = np.empty((count, group.scalars.words), np.uint32)
    scalar_rows[:] = scalars
    # Projective coordinates, and their products, reveal information about the scalars.
    results = unwritten(count, 4 * group.field.words)
    prefixes = np.zeros((count, group.field.words), np.uint32)
    with wiped(scalar_rows, results, prefixes):
        kernel = device.compile(scalar_multiples, group=group)
        with (
            device_copy(device, results) as result_memory,
            device_copy(device, prefixes) as prefix_memory,
        ):
            with device_copy(device, scalar_rows) as scalar_memory:
                device.launch(
                    kernel, -(-count // device.lanes), count,
                    np.ascontiguousarray(points), scalar_memory, result_memory,
                )  # fmt: skip
            if not device.host_memory:
                device.download(result_memory, results)
            check_written(device, "multiples", results)
            return normalise_within(device, group, count, result_memory, prefix_memory)
