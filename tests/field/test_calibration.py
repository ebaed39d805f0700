"""The measurement that chooses limbs, on a device that is an interpreter."""

from __future__ import annotations

from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.device.discovery import open_device
from quod.device.memory.buffer import Buffer
from quod.device.runtime.timeline import Timeline
from quod.errors import QuodError
from quod.field.moduli import BLS12_381_FR
from quod.field.strategies import calibration
from quod.kernel import KernelDefinition, Machine
from quod.kernel.interpreter.interpreter import interpret
from quod.msm import bases
from quod.ntt import plan


class Interpreter:
    """Runs kernels in any limbs; those in `spoilt` limbs compute wrongly."""

    lanes = 4
    resident_lanes = 4

    def __init__(self, spoilt: str = "") -> None:
        self.spoilt = spoilt
        self.launches = 0

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, limbs: str | None = None,
        **static: Any,
    ) -> Any:  # fmt: skip
        machine = Machine("wgsl", self.lanes, frozenset({"u64", "low_products"}), limbs=limbs or "")
        return definition.trace(machine, **static), limbs == self.spoilt

    def upload(self, array: np.ndarray[Any, Any], *, into: Buffer | None = None) -> Buffer:
        return Buffer.wrap(array.copy())

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        traced, is_spoilt = kernel
        self.launches += 1
        memory, steps = arguments
        words = (memory.view(np.uint8) if isinstance(memory, Buffer) else memory).view(np.uint64)
        interpret(traced, groups, [words.reshape(-1), steps + is_spoilt])


@pytest.mark.thorough
def test_only_correct_choices_have_rates() -> None:
    timeline, choices = Timeline(), ["13", "14", "17", "29/64"]
    rates = calibration.measure(Interpreter("14"), choices, budget=1e-9, timeline=timeline)
    assert set(rates) == {"13", "29/64"}
    assert min(rates.values()) > 0
    assert [row.name for row in timeline.table()] == ["choose limbs"]


def test_wrong_products_are_reported() -> None:
    with pytest.raises(QuodError, match=r"bls12_381\.fr in limbs 13 are wrong"):
        calibration.verified_chain(Interpreter("13"), "13", BLS12_381_FR)


class Adapter(Interpreter):
    """A device of WebGPU as far as choosing limbs goes."""

    def __init__(self, *, limbs_are_open: bool = True) -> None:
        super().__init__()
        self.limbs_are_open = limbs_are_open
        self.chosen: list[str] = []

    def machine(self, lanes: int) -> Machine:
        return Machine("wgsl", lanes, frozenset())

    def choose_limbs(self, limbs: str) -> None:
        self.chosen.append(limbs)
        self.limbs_are_open = False


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """Figures of each measurement, in place of measuring; calls are taken from the end."""
    figures: list[dict[str, float]] = []

    def measure(device: Any, candidates: Any, **_: Any) -> dict[str, float]:
        sleep(0.01)
        return figures.pop()

    monkeypatch.setattr(calibration, "measure", measure)
    return figures


def test_the_fastest_is_chosen_once(measured: list[dict[str, float]]) -> None:
    measured.append({"13": 2.0, "15": 3.0, "14": 1.0})
    device: Any = Adapter()
    threads = [Thread(target=calibration.calibrate, args=(device,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calibration.calibrate(device)
    assert device.chosen == ["15"]


def test_calibration_is_skipped_without_a_choice() -> None:
    adapter: Any = Adapter(limbs_are_open=False)
    for device in (adapter, open_device("cpu"), open_device("emulated:wgsl")):
        calibration.calibrate(device)
    assert adapter.launches == 0
    assert not adapter.chosen


def test_no_choice_if_all_candidates_fail(measured: list[dict[str, float]]) -> None:
    measured.append({})
    device: Any = Adapter()
    calibration.calibrate(device)
    assert device.limbs_are_open


def test_plans_calibrate_before_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(calibration, "calibrate", asked.append)
    device = open_device("emulated:wgsl")
    plan.NttPlan(device, BLS12_381_FR, 3)
    assert asked == [device]
    monkeypatch.setattr(calibration, "calibrate", stop)
    group = GROUPS["bn254.g1"]
    with pytest.raises(Stopped):
        bases.MsmBases(device, group, np.zeros((1, *group.shape), np.uint32))


class Stopped(Exception):
    """Raised where more would be too much work for a test."""


def stop(device: object) -> None:
    raise Stopped


def test_candidates() -> None:
    portable, wide = calibration.candidates(u64=False), calibration.candidates(u64=True)
    assert all(name.endswith(":rolled") for name in wide)
    assert not any("/64" in name for name in portable)
    assert set(portable) < set(wide)
