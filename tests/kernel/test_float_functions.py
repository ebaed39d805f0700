"""Functions of floats: within the errors that are stated, and the same bits on CPUs and in PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl.machine import PORTABLE
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.kernel import (
    F32,
    U32,
    Builder,
    KernelDefinition,
    Pointer,
    TraceError,
    Value,
    f32,
    f64,
    kernel,
)
from quod.kernel.interpreter.interpreter import interpret
from tests.conftest import need
from tests.kernel.machines import EIGHT
from tests.kernel.op_kernels import elementwise
from tests.kernel.refusals import refuses
from tests.support.executors import run_everywhere
from tests.support.ptx_assembler import assemble, opcodes, sass
from tests.support.wgsl_runner import DRIVERS, DriverError, runner
from tools import float_errors
from tools.float_errors import EXACT, NORMAL, apply, stated, worst_of

Array = np.ndarray[Any, Any]


def inputs(*, subnormal: bool = True) -> Array:
    """Numbers of all sizes, those around which results change their nature, the special ones."""
    random = np.random.default_rng(11)
    every = np.arange(0, 1 << 32, 524287, np.uint64).astype(np.uint32).view(np.float32)
    near_one = (1 + random.normal(0, 1e-3, 2000)).astype(np.float32)
    usual = random.normal(0, 30, 6000).astype(np.float32)
    ends = [
        88.7,
        88.73,
        89,
        -87.3,
        -103.9,
        -104,
        127.5,
        128,
        -126,
        -149,
        -149.5,
        -150.1,
        0.625,
        9.1,
    ]
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        2.0,
        1e-45,
        -1e-45,
        1e-40,
        1e38,
        *ends,
    ]
    numbers = np.concatenate([every, near_one, usual, np.array(special, np.float32)])
    if not subnormal:
        numbers = numbers[(np.abs(numbers) >= NORMAL) | (numbers == 0)]
    return np.resize(numbers, -(-len(numbers) // 32) * 32)


def function(name: str) -> KernelDefinition:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [apply(k, name, operands[0])]

    return elementwise(f"test_{name}", [f32], [f32], compute)


@pytest.mark.parametrize("name", EXACT)
def test_errors_are_within_the_documented_bounds(name: str) -> None:
    x = inputs()
    if name == "exp2":
        # The op, in PTX, is another thing than the function: neither is compared with the other.
        interpret(function(name).trace(EIGHT), len(x) // 8, [x, results := np.empty_like(x)])
    else:
        (_, results) = run_everywhere(function(name), len(x) // 8, [x, np.zeros_like(x)])
    # What the interpreter means by rsqrt, and CPUs compute, is rounded twice.
    check("llvm", name, x, results)


@kernel
def every(k: Builder, n: U32, x: Pointer[F32], out: Pointer[F32]) -> None:
    """Rows of results in one array: an adapter may have few bindings."""
    i = k.global_id()
    for row, name in enumerate(EXACT):
        out[n * row + i] = apply(k, name, x[i])


def check(target: str, name: str, x: Array, results: Array) -> None:
    worst = worst_of(name, target, x, results)
    assert worst.error <= stated(name, target), f"{name}: {worst} in {target}"


def test_errors_on_a_device(device: AnyDevice) -> None:
    """Errors of a GPU's instructions, too, which the interpreter of PTX does not have."""
    target = device.machine(32).target
    x = inputs(subnormal=target != "wgsl")
    results = np.zeros((len(EXACT), len(x)), np.float32)
    device.launch(device.compile(every, lanes=32), len(x) // 32, len(x), x, results)
    for name, result in zip(EXACT, results, strict=True):
        check(target, name, x, result)


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_in_wgsl(driver: str) -> None:
    try:
        wgsl_runner = runner(driver)
    except DriverError as error:
        need(str(error), "" if driver == "gpu" else "QUOD_TEST_DRIVERS")
        raise
    x = inputs(subnormal=False)
    for target in wgsl_runner.strengths.values():
        machine = target.machine(32)
        results = np.zeros((len(EXACT), len(x)), np.float32)
        wgsl_runner.run(every.trace(machine), machine, len(x) // 32, [len(x), x, results])
        for name, result in zip(EXACT, results, strict=True):
            check("wgsl", name, x, result)


def test_results_that_are_exact() -> None:
    powers = np.arange(-149, 128).astype(np.float32)
    powers = np.resize(powers, 280)
    # NumPy's exp2 of 32 bits is not exact on every processor.
    exact = np.ldexp(np.float32(1), powers.astype(np.int32))
    (_, results) = run_everywhere(function("log2"), 35, [exact, np.zeros(280, np.float32)])
    assert results.tolist() == powers.tolist()
    interpret(function("exp2").trace(EIGHT), 35, [powers, results := np.zeros(280, np.float32)])
    assert results.tolist() == exact.tolist()
    for name, values, expected in (
        ("exp", [0.0, -0.0, np.inf, -np.inf], [1.0, 1.0, np.inf, 0.0]),
        ("log", [1.0, 0.0, -0.0, np.inf], [0.0, -np.inf, -np.inf, np.inf]),
        ("tanh", [0.0, -0.0, np.inf, -np.inf], [0.0, -0.0, 1.0, -1.0]),
    ):
        x = np.resize(np.array(values, np.float32), 8)
        interpret(function(name).trace(EIGHT), 1, [x, out := np.zeros_like(x)])
        assert [repr(float(v)) for v in out[:4]] == [repr(v) for v in expected]


def test_ptx_has_an_instruction_for_powers_of_two() -> None:
    machine = ptx_machine(32)
    text = ptx.emit(function("exp2").trace(machine), machine)
    assert "ex2.approx.f32" in text
    for name in EXACT:
        assert assemble(ptx.emit(function(name).trace(machine), machine), "sm_90a")


@kernel
def flushed_powers(k: Builder, x: Pointer[F32], y: Pointer[F32]) -> None:
    y[k.local_id()] = k.exp2(x[k.local_id()], flush_subnormals=True)


def test_powers_of_two_without_subnormal_numbers() -> None:
    """One instruction in place of four; elsewhere the function, which has them."""
    powers = np.resize(np.array([0, 1.5, -126, -126.5, -140, -np.inf, np.inf, np.nan]), 32)
    x, machine = powers.astype(np.float32), ptx_machine(32)
    text = ptx.emit(flushed_powers.trace(machine), machine)
    assert "ex2.approx.ftz.f32" in text
    assert opcodes(sass(assemble(text, "sm_90a")[0]))["FMUL"] == 0
    interpret(flushed_powers.trace(machine), 1, [x, y := np.zeros_like(x)])
    expected = np.exp2(x.astype(np.float64)).astype(np.float32)
    expected[(powers < -126) & np.isfinite(powers)] = 0
    assert np.array_equal(y, expected, equal_nan=True)
    with open_device("emulated:ptx") as device:
        memory = [device.upload(x), device.upload(np.zeros_like(x))]
        device.launch(device.compile(flushed_powers, lanes=32), 1, *memory)
        device.download(memory[1], y)
    assert np.array_equal(y, expected, equal_nan=True)


def test_portable_wgsl_has_no_exp2_instruction() -> None:
    assert "exp2" not in {op.name for op in function("exp2").trace(PORTABLE.machine()).block.ops}


def test_other_types_are_refused() -> None:
    def of_a_double(k: Builder, x: F32) -> None:
        k.exp(x.cast(f64))  # here

    def of_a_number(k: Builder, x: F32) -> None:
        k.tanh(1.0)  # type: ignore[arg-type]  # here

    def by_an_op(k: Builder, x: F32) -> None:
        k.rsqrt(x.cast(f64))  # here

    for body, message in (
        (of_a_double, "k.exp is for f32, not an f64; write value.cast(f32)"),
        (of_a_number, "k.tanh is for f32, not a float; write value.cast(f32)"),
        (
            by_an_op,
            "operand 1 of rsqrt must be one of f32, not f64; convert one with value.cast(type)",
        ),
    ):
        refuses(body, TraceError, message)


# --- the tool that measures all numbers


def test_tool_measures_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert float_errors.main(["--every", "1048573", "--threads", "1"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["function", "target", "operands", "stated", "measured", "at"]
    assert [row.split()[0] for row in rows] == list(EXACT)
    for row in rows:
        _, target, operands, bound, measured, _ = row.split()
        # Up to a whole number of workgroups.
        assert target == "llvm"
        assert 4097 <= int(operands.replace(",", "")) < 4097 + 64
        assert 0.25 < float(measured) <= float(bound)


def test_tool_reports_errors_above_the_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(EXACT, "sqrt", lambda a: np.sqrt(a) * (1 + 1e-7))
    assert float_errors.main(["--every", "1048573", "--function", "sqrt"]) == 1
    assert "ABOVE WHAT IS STATED" in capsys.readouterr().out


def test_errors_in_units_of_the_last_place() -> None:
    exact = np.array([1.0, 1.0 + 2.0**-24, 1e39, np.nan, 2.0**-149, 0.0])
    right = np.array([1, 1, np.inf, np.nan, 2.0**-149, 0], np.float32)
    assert float_errors.ulps(right, exact).tolist() == [0, 0.5, 0, 0, 0, 0]
    wrong = np.array([1 + 2.0**-23, np.nan, 3e38, 1, 0, -(2.0**-149)], np.float32)
    assert float_errors.ulps(wrong, exact).tolist() == [1, np.inf, np.inf, np.inf, 1, 1]
