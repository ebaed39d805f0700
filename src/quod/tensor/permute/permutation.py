"""Permutations of a tensor's axes, reduced to as few axes as possible."""

from __future__ import annotations

import math

from quod.frozen import frozen


@frozen
class Permutation:
    """A permutation of axes: axis j of the result is axis `order[j]` of a contiguous array."""

    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def merged(self) -> Permutation:
        """An equivalent permutation with fewer axes.

        Axes of length 1 are dropped, and axes that stay adjacent are merged; at least one axis
        remains.
        """
        long_axes = [axis for axis in self.order if self.shape[axis] != 1]
        runs: list[list[int]] = []
        rank = {axis: index for index, axis in enumerate(sorted(long_axes))}
        for axis in long_axes:
            if runs and rank[axis] == rank[runs[-1][-1]] + 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        first_axes = sorted(run[0] for run in runs)
        sizes = {run[0]: math.prod(self.shape[axis] for axis in run) for run in runs}
        shape = tuple(sizes[axis] for axis in first_axes)
        order = tuple(first_axes.index(run[0]) for run in runs)
        return Permutation(shape or (1,), order or (0,))

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the array, in elements."""
        return _strides(self.shape)

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.shape[axis] for axis in self.order)

    @property
    def result_strides(self) -> tuple[int, ...]:
        """For each axis of the array, its stride in the result, in elements."""
        result_strides_by_axis = _strides(self.result)
        return tuple(
            result_strides_by_axis[self.order.index(axis)] for axis in range(len(self.shape))
        )


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
