"""Transforms of lists of integers and of arrays, without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from quod.curve.parameters import RootFamily
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.written import not_written
from quod.errors import InputError
from quod.field.array import Words, from_integers, to_integers, words_to_integers
from quod.field.moduli import BN254_FR, Modulus
from quod.ntt.ordering import Ordering
from quod.ntt.plan import NttPlan


@overload
def ntt(
    values: Words,
    modulus: Modulus = ...,
    *,
    inverse: bool = ...,
    family: RootFamily = ...,
    ordering: Ordering = ...,
    coset: int | None = ...,
    batch: int = ...,
    device: DeviceChoice = ...,
) -> Words: ...


@overload
def ntt(
    values: Sequence[int],
    modulus: Modulus = ...,
    *,
    inverse: bool = ...,
    family: RootFamily = ...,
    ordering: Ordering = ...,
    coset: int | None = ...,
    batch: int = ...,
    device: DeviceChoice = ...,
) -> list[int]: ...


def ntt(
    values: Words | Sequence[int],
    modulus: Modulus = BN254_FR,
    *,
    inverse: bool = False,
    family: RootFamily = "snarkjs",
    ordering: Ordering = "NN",
    coset: int | None = None,
    batch: int = 1,
    device: DeviceChoice = "cpu",
) -> Words | list[int]:
    """The number-theoretic transform of `batch` equally long runs of values over a scalar field.

    `values` are integers, of which the result is a list of integers below p, or a uint32 array of
    shape (n, words) in Montgomery form, of which it is a new one. n / batch is a power of two.
    See `NttPlan.forward` and `NttPlan.inverse` for the rest; a plan of one's own spares the copy.

    InputError if the length is no power of two, is beyond the field's roots of unity, or if an
    option is not known; DeviceError if what the device gives back is not the transform's, as two
    sums tell.
    """
    count = len(values)
    if batch < 1 or count % batch or not _is_power_of_two(count // batch):
        raise InputError(
            f"the length of a transform is a power of two, but {count} values make {batch} x "
            f"{count / max(batch, 1):g}"
        )
    array = _as_array(values, modulus)
    log2_size = (count // batch).bit_length() - 1
    plan = NttPlan(resolve_device(device), modulus, log2_size, family)
    transform = plan.inverse if inverse else plan.forward
    before = _known(plan, array, batch, spectrum=inverse, reversed_order=ordering[0] == "R")
    transform(array, batch=batch, ordering=ordering, coset=coset)
    after = _known(plan, array, batch, spectrum=not inverse, reversed_order=ordering[1] == "R")
    _check(plan, *((after, before) if inverse else (before, after)), coset)
    return array if isinstance(values, np.ndarray) else to_integers(modulus, array)


def _as_array(values: Words | Sequence[int], modulus: Modulus) -> Words:
    """The values as an array of their own."""
    if not isinstance(values, np.ndarray):
        return from_integers(modulus, values)
    if values.dtype != np.uint32 or values.shape != (len(values), modulus.words):
        raise InputError(
            f"elements of {modulus.name} are uint32 of shape (n, {modulus.words}), "
            f"not {values.dtype} of shape {values.shape}"
        )
    return np.array(values, order="C")


Known = list[tuple[int, int]]
"""Two numbers of each run: see `_known`."""


def _known(
    plan: NttPlan, array: Words, batch: int, *, spectrum: bool, reversed_order: bool
) -> Known:
    """What both sides of a transform have in common, of each run.

    Of coefficients x[0] and x[n/2], of a spectrum the sums over even and over odd k of X[k].
    """
    modulus, runs = plan.modulus, array.reshape(batch, plan.size, plan.modulus.words)
    half = plan.size // 2
    if not half:
        return [(value, 0) for value in words_to_integers(modulus, runs[:, 0])]
    # Even places come first in bit-reversed order, and n/2 comes second.
    if not spectrum:
        firsts = words_to_integers(modulus, runs[:, 0])
        return list(zip(firsts, words_to_integers(modulus, runs[:, 1 if reversed_order else half])))
    parts = (runs[:, :half], runs[:, half:]) if reversed_order else (runs[:, ::2], runs[:, 1::2])
    even, odd = (part.sum(axis=1, dtype=np.uint64).tolist() for part in parts)
    return [(_carried(first), _carried(second)) for first, second in zip(even, odd, strict=True)]


def _carried(words: Sequence[int]) -> int:
    return sum(word << (32 * place) for place, word in enumerate(words))


def _check(plan: NttPlan, coefficients: Known, spectra: Known, coset: int | None) -> None:
    """DeviceError unless sum X[k] = n*x[0] and sum (-1)^k*X[k] = n*g^(n/2)*x[n/2]."""
    p, n = plan.modulus.value, plan.size
    shift = pow(1 if coset is None else coset, n // 2, p)
    for (first, middle), (even, odd) in zip(coefficients, spectra, strict=True):
        whole = n == 1 or (even - odd - n * shift * middle) % p == 0
        if not whole or (even + odd - n * first) % p:
            raise not_written(plan.device, "a transform")


def _is_power_of_two(count: int) -> bool:
    return count > 0 and count & (count - 1) == 0
