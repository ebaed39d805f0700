"""Bindings of a launch's memory: ranges that begin where they may and do not overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import Binding
from quod.device.webgpu.binding import BindingPlan, PointerRange, Range, plan_bindings
from quod.errors import DeviceError

PORTABLE = WgslLimits()


def plan(*pointers: PointerRange, limits: WgslLimits = PORTABLE) -> BindingPlan:
    return plan_bindings("f", pointers, limits)


def test_aligned_memory_needs_no_offsets() -> None:
    binding_plan = plan(
        PointerRange(1, 0, 64), PointerRange(1, 256, 300), PointerRange(2, 512, 516)
    )
    assert binding_plan.bindings is None
    assert binding_plan.offsets == (0, 0, 0)
    assert binding_plan.ranges == (Range(1, 0, 64), Range(1, 256, 44), Range(2, 512, 4))


def test_unaligned_memory_has_an_offset() -> None:
    binding_plan = plan(PointerRange(1, 260, 300), PointerRange(2, 0, 8))
    assert binding_plan.bindings == (Binding(0, True), Binding(1, True))
    assert binding_plan.offsets == (1, 0)
    assert binding_plan.ranges == (Range(1, 256, 44), Range(2, 0, 8))


def test_equal_buffers_share_a_binding() -> None:
    binding_plan = plan(PointerRange(1, 0, 64), PointerRange(2, 0, 4), PointerRange(1, 0, 64))
    assert binding_plan.bindings == (Binding(0, True), Binding(1, True), Binding(0, True))
    assert binding_plan.ranges == (Range(1, 0, 64), Range(2, 0, 4))


def test_neighbours_within_256_bytes_share_a_binding() -> None:
    binding_plan = plan(PointerRange(1, 0, 128), PointerRange(1, 128, 1024))
    assert binding_plan.bindings == (Binding(0, True), Binding(0, True))
    assert binding_plan.offsets == (0, 32)
    assert binding_plan.ranges == (Range(1, 0, 1024),)


def test_partial_last_word_is_bound_as_a_full_word() -> None:
    assert plan(PointerRange(1, 0, 5)).ranges == (Range(1, 0, 8),)


def test_more_pointers_than_bindings_share_within_a_buffer() -> None:
    places = [PointerRange(number, 0, 256) for number in range(7)]
    places += [
        PointerRange(9, 0, 256),
        PointerRange(9, 1 << 20, (1 << 20) + 4),
        PointerRange(9, 512, 768),
    ]
    binding_plan = plan(*places)
    assert len(binding_plan.ranges) == 8
    assert binding_plan.ranges[7] == Range(9, 0, (1 << 20) + 4)
    assert binding_plan.offsets[7:] == (0, 1 << 18, 128)


def test_empty_memory_loses_its_binding_first() -> None:
    binding_plan = plan(
        *[PointerRange(number, 0, 4) for number in range(8)], PointerRange(None, 0, 0)
    )
    assert binding_plan.bindings is not None
    assert len(binding_plan.ranges) == 8
    only = plan(*[PointerRange(None, 0, 0)] * 9)
    assert len(only.ranges) == 8


def test_bindings_beyond_adapter_limits_are_rejected() -> None:
    with pytest.raises(DeviceError, match=r"kernel f takes 9 pointers .*has 8 bindings"):
        plan(*[PointerRange(number, 0, 4) for number in range(9)])
    with pytest.raises(DeviceError, match=r"128.0 MiB of memory in one piece.* reach 128.0 MiB"):
        plan(PointerRange(1, 0, (128 << 20) + 4))
    with pytest.raises(DeviceError, match="; split the work"):
        plan(PointerRange(1, 0, 64 << 20), PointerRange(1, 32 << 20, 160 << 20))
    far = [PointerRange(1, number << 25, (number << 25) + 4) for number in range(6)]
    with pytest.raises(DeviceError, match="several arrays in one buffer"):
        plan(*far, limits=WgslLimits(storage_buffers=1))


places = st.builds(
    lambda buffer, start, words: PointerRange(buffer, 4 * start, 4 * (start + words)),
    st.integers(1, 3), st.integers(0, 600), st.integers(1, 300),
)  # fmt: skip


@given(st.lists(places | st.just(PointerRange(None, 0, 0)), max_size=12))
def test_bindings_cover_every_byte_without_overlap(
    given_places: list[PointerRange],
) -> None:
    binding_plan = plan(*given_places)
    assert len(binding_plan.ranges) <= PORTABLE.storage_buffers
    numbers = [
        row.number for row in binding_plan.bindings or map(Binding, range(len(given_places)))
    ]
    for place, number, offset in zip(given_places, numbers, binding_plan.offsets, strict=True):
        row = binding_plan.ranges[number]
        if place.buffer is not None:
            assert row.buffer == place.buffer
            assert row.start + 4 * offset == place.start
            assert place.stop <= row.start + row.size
    for index, row in enumerate(binding_plan.ranges):
        assert row.start % 256 == 0
        assert row.size % 4 == 0
        for other in binding_plan.ranges[:index]:
            if row.buffer is not None and row.buffer == other.buffer:
                apart = row.start + row.size, other.start + other.size
                assert row.start >= apart[1] or other.start >= apart[0]
