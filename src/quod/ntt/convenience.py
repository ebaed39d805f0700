"""`ntt`: transforms of host values without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import InputError
from quod.field.array import Words, check_canonical, from_integers, to_integers
from quod.field.moduli import BN254_FR, Modulus
from quod.field.roots import RootFamily
from quod.ntt.ordering import Ordering, check_ordering
from quod.ntt.plan import NttPlan
from quod.ntt.sums import check_transform, known_values
from quod.validation import (
    plain_array,
    shown_kind,
    whole_number,
    whole_number_or_none,
)


@overload
def ntt(
    values: Words,
    modulus: Modulus = ...,
    *,
    inverse: bool = ...,
    family: RootFamily = ...,
    root: int | None = ...,
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
    root: int | None = ...,
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
    root: int | None = None,
    ordering: Ordering = "NN",
    coset: int | None = None,
    batch: int = 1,
    device: DeviceChoice = "cpu",
) -> Words | list[int]:
    """Return the number-theoretic transforms of `batch` vectors of equal length over a prime field.

    values: the vectors one after the other: a sequence of n int, for which the result is a list of
        integers below p; or elements in Montgomery form, uint32 of shape (n, words), for which the
        result is a new array. n / batch is a power of two.
    coset: any integer, taken modulo p.

    See `NttPlan.forward` and `NttPlan.inverse` for the other arguments. An `NttPlan` transforms in
    place, without a copy.

    Raises InputError if the length is not a power of two, exceeds the field's roots of unity or is
    not the order of `root`, if an element of an array is not below p, or for an unknown option;
    DeviceError if two sums over the device's result do not match the input.
    """
    batch = whole_number("batch", batch, 1)
    coset = whole_number_or_none("coset", coset)
    check_ordering(ordering)
    _check_values(values)
    count = len(values)
    if count % batch or not _is_power_of_two(count // batch):
        raise InputError(
            f"the length of a transform is a power of two, but {count} values make {batch} x "
            f"{count / batch:g}"
        )
    array = _as_array(values, modulus)
    log2_size = (count // batch).bit_length() - 1
    plan = NttPlan(resolve_device(device), modulus, log2_size, family, root=root)
    transform = plan.inverse if inverse else plan.forward
    vectors = array.reshape(batch, plan.size, modulus.words)
    input_values = known_values(
        modulus, vectors, spectrum=inverse, reversed_order=ordering[0] == "R"
    )
    transform(array, batch=batch, ordering=ordering, coset=coset)
    output_values = known_values(
        modulus, vectors, spectrum=not inverse, reversed_order=ordering[1] == "R"
    )
    check_transform(
        plan.device, modulus, plan.size, input_values, output_values, inverse=inverse, coset=coset
    )
    return array if isinstance(values, np.ndarray) else to_integers(modulus, array)


def _as_array(values: Words | Sequence[int], modulus: Modulus) -> Words:
    """Copy the values to an array of Montgomery form."""
    if not isinstance(values, np.ndarray):
        return from_integers(modulus, values)
    if values.dtype != np.uint32 or values.shape != (len(values), modulus.words):
        raise InputError(
            f"elements of {modulus.name} are uint32 of shape (n, {modulus.words}), "
            f"not {values.dtype} of shape {values.shape}"
        )
    check_canonical(modulus, values)
    return np.array(values, order="C")


def _check_values(values: object) -> None:
    """Raise InputError unless `values` is an array or a sequence that is not text or bytes."""
    if isinstance(values, np.ndarray):
        plain_array("values", values)
    elif not isinstance(values, Sequence) or isinstance(
        values, (str, bytes, bytearray, memoryview)
    ):
        # A set has no order, and text and bytes are not numbers.
        raise InputError(
            f"values must be an array, or a list of int or the like, not {shown_kind(values)}"
        )


def _is_power_of_two(count: int) -> bool:
    return count > 0 and count & (count - 1) == 0
