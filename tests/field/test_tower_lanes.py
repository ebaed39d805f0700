"""Fq12 by six lanes against the reference tower."""

from __future__ import annotations

import pytest

from quod.curve.named import CURVES
from quod.device.cpu.device import CpuDevice
from quod.field.tower_lanes import LANES, LaneTower
from quod.kernel import U32, U64, Builder, Pointer, TraceError, kernel
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.machine import Machine
from tests.field.test_tower import (
    CYCLOTOMIC,
    OPERATIONS,
    arguments,
    check,
    computed,
    cyclotomic,
    operands,
    tower_of,
)
from tests.support.executors import executors, ptx_executor
from tests.support.thorough import one_and_others


@kernel(workgroup=LANES)
def lane_operations(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, curve: str,
    operations: tuple[str, ...],
) -> None:  # fmt: skip
    """out[i, j] = operation j on a[i] and b[i], a workgroup each."""
    lanes = LaneTower(tower_of(k, CURVES[curve]))
    i = k.workgroup_id()
    x, y = lanes.load(a, i), lanes.load(b, i)
    line = [lanes.from_lane(y, lane) for lane in (0, 2, 4, 1)]
    for j, operation in enumerate(operations):
        lanes.store(out, i * len(operations) + j, computed(lanes, operation, x, y, line))


@pytest.mark.device("ifma")
# An inverse takes seconds to compile; pairings of all curves have one.
@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("bn254", OPERATIONS),
        ("bls12_381", CYCLOTOMIC),
        ("bls12_377", ("multiply", "square", "conjugate", "line_023", "frobenius1")),
    ],
)
def test_operations(name: str, operations: tuple[str, ...]) -> None:
    device = CpuDevice()
    assert device.lanes == LANES
    curve = CURVES[name]
    x = operands(curve)
    if operations == CYCLOTOMIC:
        x = [cyclotomic(curve, a) for a in x]
    y = [*x[1:], x[0]]
    buffers = arguments(curve, x, y, len(operations))
    compiled = device.compile(lane_operations, curve=curve.name, operations=operations)
    device.launch(compiled, len(x), *buffers)
    check(curve, operations, x, y, buffers[-1])


def machines() -> list[Machine]:
    """Those with eight lanes: with and without IFMA, and a part of a GPU's subgroup."""
    candidates = [executor.machine for executor in (*executors(), ptx_executor(1))]
    return [machine for machine in candidates if machine.workgroup_size == LANES]


@pytest.mark.parametrize("machine", one_and_others(machines()), ids=lambda machine: machine.target)
def test_interpreter_agrees(machine: Machine) -> None:
    curve = CURVES["bn254"]
    operations = ("multiply", "conjugate", "cyclotomic_square")
    x = [cyclotomic(curve, a) for a in operands(curve)[-3:]]
    y = [*x[1:], x[0]]
    buffers = arguments(curve, x, y, len(operations))
    traced = lane_operations.trace(machine, curve=curve.name, operations=operations)
    interpret(traced, len(x), buffers)
    check(curve, operations, x, y, buffers[-1])


@pytest.mark.parametrize("lanes", [1, 16])
def test_tower_lanes_require_8_instances(lanes: int) -> None:
    machine = CpuDevice().machine(lanes)
    with pytest.raises(TraceError, match="needs workgroups of 8 instances in one subgroup"):
        lane_operations.trace(machine, curve="bn254", operations=("square",))
