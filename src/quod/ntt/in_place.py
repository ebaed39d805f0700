"""Kernels that work in place, where what never ran looks like a result: whether they did run.

What they do to an element or two says it. Their own values may be zero, or equal, and be left as
they are; so others take their places meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.written import check_written, not_written, unwritten
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.ntt.ordering import Ordering
from quod.ntt.sums import check_transform, known

Element = np.ndarray[Any, Any]
"""The words of an element, where they are."""


@contextmanager
def multiplied(
    device: AnyDevice, modulus: Modulus, element: Element, factor: int
) -> Iterator[None]:
    """An element that is multiplied inside, by no 1; DeviceError if it was not."""
    was = int.from_bytes(element.tobytes(), "little")
    # Numbers as they are in memory: factors are in Montgomery form, so that these need not be.
    element.view(np.uint8)[:] = _bytes_of(modulus, 1)
    yield
    if element.tobytes() != _bytes_of(modulus, factor).tobytes():
        raise not_written(device, "a transform")
    element.view(np.uint8)[:] = _bytes_of(modulus, was * factor)


@contextmanager
def exchanged(device: AnyDevice, a: Element, b: Element) -> Iterator[None]:
    """Two elements that are exchanged inside; DeviceError if they were not."""
    first, second = a.copy(), b.copy()
    a[:], b[:] = 0, np.iinfo(b.dtype).max
    yield
    if not a.all() or b.any():
        raise not_written(device, "a transform")
    a[:], b[:] = second, first


def bring_back(
    device: AnyDevice, modulus: Modulus, buffer: Buffer, runs: Words, *,
    inverse: bool, ordering: Ordering, coset: int | None, scaled: bool,
) -> None:  # fmt: skip
    """Downloads transforms over what they are of, an array of shape (batch, n, words).

    DeviceError if they are what they were, and sums tell that they should not be. One element tells
    that they are not, unless it is one of those that are the same on both sides.
    """
    last = unwritten(1, modulus.words)
    device.download(buffer.slice(buffer.nbytes - last.nbytes, buffer.nbytes), last)
    check_written(device, "a transform", last)
    if (last == runs[-1, -1]).all():
        after = unwritten(*runs.shape)
        device.download(buffer, after)
        sides = (
            known(modulus, own, spectrum=spectrum, reversed_order=order == "R")
            for own, spectrum, order in zip(
                (runs, after), (inverse, not inverse), ordering, strict=True
            )
        )
        check_transform(
            device, modulus, runs.shape[1], *sides, inverse=inverse, coset=coset, scaled=scaled
        )
    device.download(buffer, runs)


def _bytes_of(modulus: Modulus, number: int) -> NDArray[np.uint8]:
    return np.frombuffer((number % modulus.value).to_bytes(modulus.bytes, "little"), np.uint8)
