"""Rows that a matrix of blocks is multiplied by: what they and their results are to be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.buffer import Buffer, overlap
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.machine import Capability
from quod.tensor.arrays import Given, Tensor, check_apart, of_shape, shaped, tensor
from quod.tensor.plan import WIDEST
from quod.tensor.quantised.batch_kernel import MULTIPLY_ROWS, plan_batch
from quod.tensor.quantised.bytes_kernels import LANES, MULTIPLY_BYTES, QUANTISE_ROWS
from quod.tensor.quantised.kinds import BLOCKS
from quod.tensor.quantised.packed import BYTES

EXACT, INT8 = "exact", "int8"
"""What activations are multiplied as."""

_AT_ONCE, _BATCH = 2, 4
"""Rows of the matrix, and of activations at most, of a workgroup that multiplies bytes."""
_MOST = (1 << 32) - 1


def is_batch(x: object) -> bool:
    """Whether it has rows, another axis than a vector's, or is another library's array."""
    if isinstance(x, (np.ndarray, Buffer)):
        return isinstance(x.shape, (tuple, list)) and len(x.shape) > 1
    return hasattr(type(x), "shape")


class Batch:
    """Rows X, checked against a matrix of the shape (`rows`, `columns`), and memory for Y."""

    def __init__(
        self, device: AnyDevice, x: Given, y: Given | None, shape: tuple[int, int], weights: Any
    ) -> None:
        self._device, (self._n, self._depth) = device, shape
        self._x = tensor(device, "x", x)
        if self._x.columns != self._depth:
            raise InputError(f"x must have rows of {self._depth} elements, not {self._x.text}")
        wanted = (*self._x.shape[:-1], self._n)
        self.y = shaped(device, x, self._x, wanted) if y is None else y
        """What the result is stored to."""
        self._made: Tensor = of_shape(device, "y", self.y, self._x, wanted)
        check_apart(self._made, self._x)
        if overlap(self._made.memory, weights):
            raise InputError("y is in memory that is read for it; take other memory")
        self.empty = not math.prod(wanted)
        """Whether there is nothing to compute."""
        self._weights = weights

    def launches(self, form: str, activations: str) -> tuple[tuple[Any, ...], ...]:
        """What multiplies, each for `device.launch`, one after the other."""
        return (self._exact(form),) if activations == EXACT else self._of_bytes(form)

    def _exact(self, form: str) -> tuple[Any, ...]:
        m, element = self._x.rows, self._x.element
        plan = plan_batch(self._device, element, form, (m, self._n, self._depth))
        kernel = self._device.compile(
            MULTIPLY_ROWS[element], lanes=plan.lanes, element=element, form=form, plan=plan
        )
        memory = self._x.memory, self._weights, self._made.memory
        return kernel, plan.groups(m, self._n), m, self._n, self._depth, *memory

    def _of_bytes(self, form: str) -> tuple[tuple[Any, ...], ...]:
        device, m, element = self._device, self._x.rows, self._x.element
        blocks = m * self._depth // BYTES
        if blocks * BYTES > _MOST:
            raise InputError(f"x has {blocks * BYTES} elements; as bytes at most {_MOST} go")
        kept = [device.allocate(blocks * nbytes, zero=False) for nbytes in (BYTES, 4, 4)]
        lanes = device.machine(device.lanes).has(Capability.VECTOR_LANES)
        quantise = device.compile(
            QUANTISE_ROWS[element], lanes=LANES, element=element,
            vector=1 if lanes else WIDEST // element.bytes,
        )  # fmt: skip
        # A processor's compiler takes long where a vector gathers bytes.
        at_once, batch = (1, 1) if lanes else (_AT_ONCE, min(_BATCH, 1 << (m - 1).bit_length()))
        multiply = device.compile(
            MULTIPLY_BYTES[element], lanes=LANES, form=form, at_once=at_once, batch=batch
        )
        groups = -(-self._n // at_once) * -(-m // batch)
        blocks_per_row = self._depth // BLOCKS[form].elements
        return (
            (quantise, -(-blocks // LANES), blocks, self._x.memory, *kept),
            (
                multiply, groups, m, self._n, blocks_per_row, self._weights, *kept,
                self._made.memory,
            ),
        )  # fmt: skip
