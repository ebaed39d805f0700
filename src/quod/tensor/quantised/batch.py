"""Rows that a matrix of blocks is multiplied by: what they and their results are to be."""

from __future__ import annotations

import math
from typing import Any

from quod.device.buffer import overlap
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.tensor.arrays import Given, Tensor, check_apart, of_shape, shaped, tensor
from quod.tensor.quantised.batch_kernel import MULTIPLY_ROWS, plan_batch


def is_batch(x: object) -> bool:
    """Whether it has rows: another axis than a vector's."""
    return len(getattr(x, "shape", None) or ()) > 1


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

    def launched(self, form: str) -> tuple[Any, ...]:
        """What multiplies, for `device.launch`."""
        m, element = self._x.rows, self._x.element
        plan = plan_batch(self._device, element, form, (m, self._n, self._depth))
        kernel = self._device.compile(
            MULTIPLY_ROWS[element], lanes=plan.lanes, element=element, form=form, plan=plan
        )
        memory = self._x.memory, self._weights, self._made.memory
        return kernel, plan.groups(m, self._n), m, self._n, self._depth, *memory
