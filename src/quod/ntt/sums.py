"""Consistency checks of transforms: two linear relations between input and output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written, unwritten
from quod.errors import DeviceError
from quod.field.array import Words, check_canonical, words_to_integers
from quod.field.moduli import Modulus
from quod.ntt.ordering import Ordering

KnownValues = list[tuple[int, int]]
"""Two integers per transform; see `known_values`."""


def known_values(
    modulus: Modulus, transforms: Words, *, spectrum: bool, reversed_order: bool
) -> KnownValues:
    """Return the two integers of each transform that `check_transform` relates.

    transforms: elements in Montgomery form, uint32 of shape (batch, n, words).
    spectrum: if False, the elements are coefficients x, and the integers x[0] and x[n/2]; if True,
        they are a spectrum X, and the integers the sums of X[k] over even and over odd k.
    """
    half = transforms.shape[1] // 2
    if not half:
        return [(value, 0) for value in words_to_integers(modulus, transforms[:, 0])]
    # In bit-reversed order even indices come first, and n/2 is second.
    if not spectrum:
        firsts = words_to_integers(modulus, transforms[:, 0])
        return list(
            zip(firsts, words_to_integers(modulus, transforms[:, 1 if reversed_order else half]))
        )
    half_spectra = (
        (transforms[:, :half], transforms[:, half:])
        if reversed_order
        else (transforms[:, ::2], transforms[:, 1::2])
    )
    even, odd = (
        half_spectrum.sum(axis=1, dtype=np.uint64).tolist() for half_spectrum in half_spectra
    )
    return [
        (_integer_of_sums(first), _integer_of_sums(second))
        for first, second in zip(even, odd, strict=True)
    ]


def _integer_of_sums(words: Sequence[int]) -> int:
    return sum(word << (32 * index) for index, word in enumerate(words))


def check_transform(
    device: AnyDevice, modulus: Modulus, size: int, before: KnownValues, after: KnownValues, *,
    inverse: bool, coset: int | None, scaled: bool = True,
) -> None:  # fmt: skip
    """Raise DeviceError unless sum X[k] = n*x[0] and sum (-1)^k*X[k] = n*g^(n/2)*x[n/2].

    scaled: if False, the coefficients are n times too large.
    """
    p, n = modulus.value, size
    shift = pow(1 if coset is None else coset, n // 2, p)
    factor = n if scaled else 1
    coefficients, spectra = (after, before) if inverse else (before, after)
    for (first, middle), (even, odd) in zip(coefficients, spectra, strict=True):
        is_middle_right = n == 1 or (even - odd - factor * shift * middle) % p == 0
        if not is_middle_right or (even + odd - factor * first) % p:
            raise not_written(device, "a transform")


def bring_back(
    device: AnyDevice, modulus: Modulus, buffer: Buffer, transforms: Words, *,
    inverse: bool, ordering: Ordering, coset: int | None, scaled: bool,
) -> None:  # fmt: skip
    """Download results over their input `transforms`, an array of shape (batch, n, words).

    A changed last element shows that the transforms ran. If it is unchanged, `check_transform`
    checks the whole result. Raises DeviceError if the transforms did not run, InputError if an
    element of the input is not below the modulus.
    """
    last = np.full((1, modulus.words), UNWRITTEN, np.uint32)
    device.download(buffer.slice(buffer.nbytes - last.nbytes, buffer.nbytes), last)
    # A word may equal the sentinel, but no element consists of sentinels only.
    if (last == UNWRITTEN).all():
        raise not_written(device, "a transform")
    if (last == transforms[-1, -1]).all():
        result = unwritten(*transforms.shape)
        device.download(buffer, result)
        values = (
            known_values(modulus, array, spectrum=spectrum, reversed_order=order == "R")
            for array, spectrum, order in zip(
                (transforms, result), (inverse, not inverse), ordering, strict=True
            )
        )
        try:
            check_transform(
                device,
                modulus,
                transforms.shape[1],
                *values,
                inverse=inverse,
                coset=coset,
                scaled=scaled,
            )
        except DeviceError:
            # The relations need not hold for integers that are not below the modulus.
            check_canonical(modulus, transforms)
            raise
    device.download(buffer, transforms)
