"""Memory budgets: error messages, and sizes within the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.device import CpuDevice
from quod.device.memory.budget import bytes_text, check_budget
from quod.errors import DeviceError

GIB = 1 << 30


def test_sizes_are_formatted() -> None:
    assert [bytes_text(n) for n in (0, 1, 1023, 1024, 1536, 5 * GIB, 3000 << 40)] == [
        "0 bytes", "1 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 GiB", "3000.0 TiB",
    ]  # fmt: skip


def test_sizes_within_budget_are_accepted() -> None:
    check_budget("an MSM", 100, 100)
    check_budget("an MSM", 0, 1)
    CpuDevice(memory_budget=100).check_budget("an MSM", 100)


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({}, ""),
        ({"items": 1000, "unit": "points"}, ", which fits 250 of 1000 points"),
        (
            {"items": 1000, "fixed": 2 * GIB, "unit": "points"},
            ", too little for any of the 1000 points",
        ),
        ({"items": 100, "fixed": GIB // 2}, ", which fits 14 of 100 items"),
        ({"items": 1000, "fixed": 4 * GIB}, ""),
    ],
)
def test_sizes_over_budget_are_rejected(options: dict[str, int], detail: str) -> None:
    with pytest.raises(DeviceError) as caught:
        CpuDevice(memory_budget=GIB).check_budget("an MSM", 4 * GIB, **options)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"an MSM would take 4.0 GiB of memory; the budget is 1.0 GiB{detail}; free memory, use a "
        "device with more, or split the work (in Python also: a larger memory_budget)"
    )


@given(st.integers(0, 1000), st.integers(1, 50), st.integers(1, 200), st.integers(1, 5000))
def test_reported_item_count_fits_the_budget(
    fixed: int, each: int, items: int, budget: int
) -> None:
    try:
        check_budget("a plan", fixed + each * items, budget, fixed=fixed, items=items)
    except DeviceError as error:
        words = str(error).partition(", which fits ")[2].split()
        fits = int(words[0]) if words else 0
        assert fixed + each * fits <= budget or fits == 0
        assert fixed + each * (fits + 1) > budget
    else:
        assert fixed + each * items <= budget


def test_default_budget_is_free_memory() -> None:
    assert 1 << 20 < CpuDevice().memory_budget < 1 << 50
