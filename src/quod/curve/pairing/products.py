"""Pairings on a device: products of pairings with one final exponentiation.

Points must be on the curve and in their subgroups of order r, which is not checked here. The device
is a CPU or an NVIDIA GPU: WebGPU drivers inline all functions, and take minutes to compile a
pairing that a CPU computes in milliseconds. On CPUs with IFMA, the lanes of a vector share
each pairing if there are few (`quod.curve.pairing.subgroup_miller_loop`), which takes a third of
the time of eight Miller functions that are computed one per lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.array import from_points
from quod.curve.groups import PairingGroup
from quod.curve.named import CURVES
from quod.curve.parameters import Fq2Element, G1Point, G2Point, PairingCurve
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice, has_ifma, lanes_for
from quod.device.runtime.sentinel import not_written, unwritten
from quod.errors import DeviceError, InputError
from quod.field.array import canonical, to_integers
from quod.kernel import U32, U64, KernelDefinition, Pointer, kernel
from quod.kernel.machine import Capability
from quod.validation import in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quod.curve.pairing.miller_loop import MillerLoop
    from quod.kernel.builder.builder import Builder

Words = np.ndarray[Any, np.dtype[np.uint32]]
Fq6Integers = tuple[Fq2Element, Fq2Element, Fq2Element]
Fq12Integers = tuple[Fq6Integers, Fq6Integers]
Pair = tuple[G1Point, G2Point]

ONE: Fq12Integers = (((1, 0), (0, 0), (0, 0)), ((0, 0), (0, 0), (0, 0)))
"""1 in Fq12."""


@kernel
def miller_loops(
    k: Builder, n: U32, p: Pointer[U64], q: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """Compute out[i] in Fq12 = the Miller function of p[i] in G1 and q[i] in G2; 1 for infinity."""
    loop = _miller_loop(k, curve)
    i = k.global_id()
    with k.if_(i < n):
        loop.compute(p, q, out, i)


@kernel
def pairing_final(
    k: Builder, n: U32, values: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """Compute out[0] in Fq12 = the product of n values to the power (q^12 - 1)/r; one instance."""
    # Imported here, as only a trace needs it.
    from quod.curve.pairing.final_exponentiation import power_of_product

    loop = _miller_loop(k, curve)
    power_of_product(loop.tower, loop.curve, n, values, out)


def _miller_loop(k: Builder, curve: str) -> MillerLoop:
    # Imported here, as only a trace needs it.
    from quod.curve.pairing.miller_loop import MillerLoop

    return MillerLoop(k, CURVES[curve])


def miller_kernel(device: AnyDevice, count: int) -> tuple[KernelDefinition, int, int]:
    """Return the kernel for `count` Miller functions, its lanes and its workgroups."""
    lanes = lanes_for(device, count)
    if lanes == 1 and has_ifma(device):
        from quod.curve.pairing.subgroup_miller_loop import miller_loops_by_lanes

        return miller_loops_by_lanes, device.lanes, count
    return miller_loops, lanes, -(-count // lanes)


def final_kernel(device: AnyDevice) -> tuple[KernelDefinition, int]:
    """Return the kernel of the final exponentiation, and the number of its lanes."""
    if has_ifma(device):
        from quod.curve.pairing.subgroup_miller_loop import pairing_final_by_lanes

        return pairing_final_by_lanes, device.lanes
    # The kernel for all lanes of a vector would run as long, and take much longer to compile.
    return pairing_final, 1


def pairing_product_words(
    device: AnyDevice, curve: PairingCurve, p: Words, q: Words
) -> NDArray[np.uint32]:
    """Return the product of e(p[i], q[i]): Fq12 as 12 elements of Fq in the order of the tower.

    p, q: points in Montgomery form (see `quod.curve.array`), uint32 of shape (n, 2, words) and
        (n, 2, 2, words).
    Returns an array of shape (12, words). Raises DeviceError on WebGPU.
    """
    return _checked_product(device, curve, miller_words(device, curve, p, q))


def check_pairing_device(device: AnyDevice) -> None:
    """Raise DeviceError for a device that cannot compute pairings."""
    if device.machine(device.lanes).has(Capability.SHORT_KERNELS):
        raise DeviceError(
            f"{device.name} cannot compute pairings, because WebGPU drivers take "
            "minutes to compile them; verify with --device cpu"
        )


def miller_words(device: AnyDevice, curve: PairingCurve, p: Words, q: Words) -> Words:
    """Return the Miller functions of arrays of points, which are as for `pairing_product_words`.

    The result has shape (n, 12, words), as `product_of_values` expects.
    """
    check_pairing_device(device)
    words = curve.fq.words
    count = len(p)
    if p.shape != (count, 2, words) or q.shape != (count, 2, 2, words):
        raise ValueError(f"pairs of {curve.name} do not have shapes {p.shape} and {q.shape}")
    values = unwritten(count, 12, words)
    arrays = (np.ascontiguousarray(p), np.ascontiguousarray(q))
    definition, lanes, workgroups = miller_kernel(device, count)
    loops = device.compile(definition, lanes=lanes, curve=curve.name)
    device.launch(loops, workgroups, count, *arrays, values)
    # The sentinel of unwritten values is above the modulus, so this check detects it too.
    if not canonical(curve.fq, values).all() or not values.any(axis=(1, 2)).all():
        raise not_written(device, "Miller functions")
    return values


def _checked_product(device: AnyDevice, curve: PairingCurve, values: Words) -> Words:
    out = _product_words(device, curve, values)
    if not _is_cyclotomic(curve, to_integers(curve.fq, out)):
        raise not_written(device, "a pairing")
    return out


def _product_words(device: AnyDevice, curve: PairingCurve, values: Words) -> Words:
    check_pairing_device(device)
    out = unwritten(12, curve.fq.words)
    definition, lanes = final_kernel(device)
    product = device.compile(definition, lanes=lanes, curve=curve.name)
    device.launch(product, 1, len(values), values, out)
    if not canonical(curve.fq, out).all():
        raise not_written(device, "a pairing")
    return out


def _is_cyclotomic(curve: PairingCurve, c: Sequence[int]) -> bool:
    """Return whether a value is in the subgroup of order q^4 - q^2 + 1, as all pairings are.

    That is so if value^(q^4) * value = value^(q^2). 0 is not in the subgroup.
    """
    tower, q = curve.tower, curve.fq.value
    # Coefficients of w^0 to w^5, from those of both halves over v = w^2.
    value = [(c[index], c[index + 1]) for index in (0, 6, 2, 8, 4, 10)]

    def frobenius(power: int) -> list[Fq2Element]:
        factors = tower.frobenius_coefficients(power)
        return [
            tower.multiply(coefficient, factor)
            for coefficient, factor in zip(value, factors, strict=True)
        ]

    product = [(0, 0)] * 6
    for i, image in enumerate(frobenius(4)):
        for j, other in enumerate(value):
            term = tower.multiply(image, other)
            if i + j >= 6:
                term = tower.multiply(term, tower.fq6_non_residue)
            low, high = product[(i + j) % 6]
            product[(i + j) % 6] = ((low + term[0]) % q, (high + term[1]) % q)
    return product == frobenius(2) and any(c)


def miller_values(device: AnyDevice, curve: PairingCurve, pairs: Sequence[Pair]) -> Words:
    """Return the Miller functions of pairs of integer points; None is infinity.

    The result has shape (n, 12, words), as `product_of_values` expects.
    """
    p = from_points(PairingGroup(curve.name, 1), [pair[0] for pair in pairs])
    q = from_points(PairingGroup(curve.name, 2), [pair[1] for pair in pairs])
    return miller_words(device, curve, p, q)


def product_of_values(device: AnyDevice, curve: PairingCurve, values: Words) -> Fq12Integers:
    """Return the product of the pairings with these Miller functions."""
    return _in_tower(to_integers(curve.fq, _checked_product(device, curve, values)))


def product_is(
    device: AnyDevice, curve: PairingCurve, values: Words, expected: Fq12Integers
) -> bool:
    """Return whether the product of pairings equals a value."""
    coefficients = to_integers(curve.fq, _product_words(device, curve, values))
    if _in_tower(coefficients) == expected:
        return True
    # `expected` is a pairing, so an equal result is one. Another result may be no pairing at all.
    if not _is_cyclotomic(curve, coefficients):
        raise not_written(device, "a pairing")
    return False


def _in_tower(c: Sequence[int]) -> Fq12Integers:
    low: Fq6Integers = ((c[0], c[1]), (c[2], c[3]), (c[4], c[5]))
    high: Fq6Integers = ((c[6], c[7]), (c[8], c[9]), (c[10], c[11]))
    return low, high


def pairing_product(
    device: DeviceChoice, curve: PairingCurve, pairs: Iterable[Pair]
) -> Fq12Integers:
    """Return the product of e(p, q) over pairs of integer points; None is infinity.

    Without pairs it is 1. Points must be on the curve and in their subgroups, which `contains` and
    `in_subgroup` of `quod.curve.g1_group` and `g2_group` test. Raises InputError for a curve that
    is not in `quod.curve.CURVES`, and for an argument that is not a list of pairs of points.
    """
    resolved_device = resolve_device(device)
    if CURVES.get(curve.name) != curve:
        raise InputError(f"{curve.name} is not one of quod.curve.CURVES, the curves with pairings")
    return product_of_values(
        resolved_device, curve, miller_values(resolved_device, curve, _checked_pairs(pairs))
    )


def _checked_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """Copy the pairs; raise InputError for anything else, such as three points or a mapping."""
    copies: list[Pair] = []
    for position, pair in enumerate(in_order("pairs", pairs)):
        copy = tuple(pair) if type(pair) in (tuple, list) else ()
        if len(copy) != 2:
            raise InputError(f"pair {position} must be a point of G1 and a point of G2")
        copies.append((copy[0], copy[1]))
    return copies


def pairing(device: DeviceChoice, curve: PairingCurve, p: G1Point, q: G2Point) -> Fq12Integers:
    """Return e(p, q), the optimal ate pairing with the final exponent exactly (q^12 - 1)/r."""
    return pairing_product(device, curve, [(p, q)])


def pairing_product_is_one(
    device: DeviceChoice, curve: PairingCurve, pairs: Iterable[Pair]
) -> bool:
    """Return whether the product of e(p, q) over all pairs is 1; see `pairing_product`."""
    return pairing_product(device, curve, pairs) == ONE
