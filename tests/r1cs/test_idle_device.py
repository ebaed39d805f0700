"""A CPU device that skips launches and reports success produces no witness."""

from __future__ import annotations

from typing import Any

import pytest

from quod import r1cs
from quod.device.cpu.device import CpuDevice
from quod.errors import DeviceError
from quod.r1cs.executor import plans
from quod.r1cs.repetition import row_checks
from tests.support.thorough import one_and_others


class Idle(CpuDevice):
    """A processor that leaves out one launch, by its number since `left_out` was set."""

    left_out = -1
    launched = 0

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        self.launched += 1
        if self.launched - 1 != self.left_out:
            super().execute(kernel, groups, *arguments)


def function(system: r1cs.ConstraintSystem) -> None:
    x = system.private("x")
    with system.namespace("inner"):
        (half,) = system.hint(lambda value: value // 2, [x * x])
        remainder = x * x - 2 * half
        system.boolean(remainder)
        (again,) = system.hint(lambda value: value + 1, [half * half])
        system.assert_equal(again, half * half + 1)
    system.output("y", again)


@pytest.mark.parametrize("count", one_and_others([1, 5]))
def test_skipped_launches_produce_no_witness(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out each launch alone.

    A part of the inputs takes eight: three stretches, their outputs, the arguments of two hints.
    How many inputs a part has depends on the processor. The rows are checked in one more.
    """
    device = Idle()
    for module in (plans, row_checks):
        monkeypatch.setattr(module, "resolve_device", lambda name: device)
    circuit = r1cs.trace(function)
    circuit.prepare()
    inputs = [{"x": at} for at in range(count)]
    # What is right stays in memory for the next.
    assert len(circuit.witnesses(inputs)) == count
    launches = device.launched
    assert launches > 1
    assert (launches - 1) % (3 + 3 + 2) == 0
    for number in range(launches):
        device.launched, device.left_out = 0, number
        with pytest.raises(DeviceError, match="reported success without computing"):
            circuit.witnesses(inputs)
    device.launched, device.left_out = 0, launches
    assert len(circuit.witnesses(inputs)) == count


def test_skipped_launches_pass_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Idle()
    for module in (plans, row_checks):
        monkeypatch.setattr(module, "resolve_device", lambda name: device)
    circuit = r1cs.trace(function)
    circuit.prepare()
    values = circuit.values({"x": 3})
    wrong = [*values[:-1], values[-1] + 1]

    assert circuit.check(wrong)
    device.launched = device.left_out = 0
    with pytest.raises(DeviceError, match="which constraints fail"):
        circuit.check(wrong)


def test_skipped_launches_of_recorded_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single witness without hints replays its launches in memory that has an earlier witness."""
    device = Idle()
    monkeypatch.setattr(plans, "resolve_device", lambda name: device)

    def power(system: r1cs.ConstraintSystem) -> None:
        system.output("y", 1 / system.private("x") ** 5)

    circuit = r1cs.trace(power)
    circuit.prepare()
    circuit.witness({"x": 2}, check=False)
    device.launched = 0
    circuit.witness({"x": 3}, check=False)
    launches = device.launched
    assert launches == 2
    for number in range(launches):
        device.launched, device.left_out = 0, number
        with pytest.raises(DeviceError, match="reported success without computing"):
            circuit.witness({"x": 4}, check=False)
    device.launched, device.left_out = 0, launches
    assert circuit.witness({"x": 2}, check=False).values.any()
