"""Planning of the storage bindings of a launch: each pointer parameter is a range of a buffer.

A binding starts at a multiple of 256 bytes. Two bindings must not overlap if one of them is
written, and each may be written. So if memory starts elsewhere the kernel adds an offset. Pointers
share a binding if their ranges would overlap or there are too few bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import Binding
from quod.device.memory.budget import bytes_text
from quod.errors import DeviceError
from quod.frozen import frozen

WORD_BYTES = 4


@frozen
class PointerRange:
    """The memory of one pointer: bytes `start` to `stop` of the buffer with the id `buffer`.

    buffer: None if the memory is empty.
    """

    buffer: int | None
    start: int
    stop: int


@frozen
class Range:
    """The range of one binding; `buffer` is None if all its memory is empty."""

    buffer: int | None
    start: int
    size: int


@frozen
class BindingPlan:
    """The bindings of a launch.

    bindings: one row for each pointer; None if each pointer has its own binding that starts at its
    memory.
    offsets: offsets that the kernel adds, in 32-bit words.
    """

    bindings: tuple[Binding, ...] | None
    ranges: tuple[Range, ...]
    offsets: tuple[int, ...]


@dataclass
class _Group:
    """Pointers that share a binding."""

    members: list[int]
    buffer: int | None
    start: int
    stop: int

    def join(self, other: _Group) -> None:
        self.members += other.members
        self.start, self.stop = min(self.start, other.start), max(self.stop, other.stop)


def plan_bindings(kernel: str, pointers: Sequence[PointerRange], limits: WgslLimits) -> BindingPlan:
    """Plan the bindings of a launch for the memory ranges of its pointers, in order.

    Raises DeviceError if the adapter has too few bindings or one binding is too large.
    """
    align = limits.binding_alignment
    groups = [
        _Group([index], pointer.buffer, pointer.start // align * align, pointer.stop)
        for index, pointer in enumerate(pointers)
    ]
    groups = _without_overlap(groups)
    while len(groups) > limits.storage_buffers:
        groups = _merge_two_groups(kernel, groups, len(pointers), limits)
    groups.sort(key=lambda group: min(group.members))
    binding_of = {index: number for number, group in enumerate(groups) for index in group.members}
    for group in groups:
        if group.stop - group.start > limits.binding_bytes:
            raise DeviceError(
                f"kernel {kernel} was given {bytes_text(group.stop - group.start)} of "
                "memory in one piece; the adapter lets it reach "
                f"{bytes_text(limits.binding_bytes)} of a buffer; split the work, or "
                "use a device with larger buffers"
            )
    ranges = tuple(
        Range(group.buffer, group.start, -(-(group.stop - group.start) // WORD_BYTES) * WORD_BYTES)
        for group in groups
    )
    offsets = tuple(
        (pointer.start - groups[binding_of[index]].start) // WORD_BYTES
        if pointer.buffer is not None
        else 0
        for index, pointer in enumerate(pointers)
    )
    if len(groups) == len(pointers) and not any(offsets):
        return BindingPlan(None, ranges, offsets)
    # An offset for every pointer keeps variants of a kernel few; reading an offset costs nothing.
    bindings = tuple(Binding(binding_of[index], True) for index in range(len(pointers)))
    return BindingPlan(bindings, ranges, offsets)


def _without_overlap(groups: list[_Group]) -> list[_Group]:
    """Merge groups that overlap."""
    merged: list[_Group] = []
    in_memory_order = sorted(
        (group for group in groups if group.buffer is not None),
        key=lambda group: (group.buffer or 0, group.start),
    )
    for group in in_memory_order:
        if merged and merged[-1].buffer == group.buffer and group.start < merged[-1].stop:
            merged[-1].join(group)
        else:
            merged.append(group)
    return merged + [group for group in groups if group.buffer is None]


def _merge_two_groups(
    kernel: str, groups: list[_Group], pointers: int, limits: WgslLimits
) -> list[_Group]:
    """Merge the two groups that cost least: empty memory, else neighbours in one buffer."""
    empty = [group for group in groups if group.buffer is None]
    if empty and len(groups) > 1:
        (empty_group, *_), target_group = (
            empty,
            next(group for group in groups if group is not empty[0]),
        )
        target_group.members += empty_group.members
        return [group for group in groups if group is not empty_group]
    in_memory_order = sorted(groups, key=lambda group: (group.buffer or 0, group.start))
    sizes_of_pairs = [
        (right.stop - left.start, number)
        for number, (left, right) in enumerate(pairwise(in_memory_order))
        if left.buffer == right.buffer
        and max(left.stop, right.stop) - left.start <= limits.binding_bytes
    ]
    if not sizes_of_pairs:
        raise DeviceError(
            f"kernel {kernel} takes {pointers} pointers into different buffers; the adapter has "
            f"{limits.storage_buffers} bindings, so place several arrays in one buffer"
        )
    _, number = min(sizes_of_pairs)
    in_memory_order[number].join(in_memory_order.pop(number + 1))
    return in_memory_order
