"""Sums and extremes of subgroups that a workgroup does not fill, and their instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.lowering import lower
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.codegen.wgsl.module import Binding
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.device import CpuDevice
from quod.kernel import F32, Builder, Machine, Pointer, TraceError, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.kernel.refusals import refuses
from tests.kernel.subgroup_kernels import EXCHANGES, Shape
from tests.kernel.test_differential import CACHE
from tests.support.executors import assert_same_bits
from tests.support.ptx_assembler import assemble
from tests.support.thorough import one_and_others
from tests.support.tint import Tint

(SUMS,) = [exchange for exchange in EXCHANGES if str(exchange) == "combinations"]


def arguments() -> list[np.ndarray[Any, Any]]:
    return [array.copy() for array in SUMS.arguments]


@pytest.mark.parametrize("width", one_and_others([3, 1, 24]))
def test_a_workgroup_smaller_than_a_subgroup(width: int) -> None:
    groups = 240 // width
    rows = [SUMS.model(Shape(width, 32), i) for i in range(groups * width)]

    def check(arrays: list[np.ndarray[Any, Any]], what: str) -> None:
        for number, buffer in enumerate(arrays[2:]):
            expected = np.array([row[number] for row in rows], buffer.dtype)
            assert_same_bits(buffer[: len(rows)], expected, f"{what}, buffer {number}")

    features = frozenset({"u64", "subgroup"})
    llvm = Machine("llvm", width, features, subgroup_size=32)
    interpret(SUMS.definition.trace(llvm), groups, arrays := arguments())
    check(arrays, "interpreted")
    device = CpuDevice(strategy="scalar", threads=1, cache=CACHE)
    compiled = cpu_compiler.build(SUMS.definition, llvm, {}, CACHE)
    device.launch(compiled, groups, *(arrays := arguments()))
    check(arrays, "LLVM")
    for arch in ("sm_75", "sm_80"):
        machine = ptx_machine(width, arch)
        text = ptx.emit(SUMS.definition.trace(machine), machine)
        assert ("redux.sync.add.u32" in text) == (arch == "sm_80")
        interpret_ptx(text, groups, arrays := arguments())
        check(arrays, arch)
    portable = PORTABLE.machine(width)
    lowered = lower(SUMS.definition.trace(portable), portable).kernel
    arrays = arguments()
    words = [array.view(np.uint32) for array in arrays]
    interpret(lowered, groups, words)
    check(arrays, "lowered for WGSL")


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("width", [24, 64])
def test_ptx_is_assembled(arch: str, width: int) -> None:
    machine = ptx_machine(width, arch)
    assert assemble(ptx.emit(SUMS.definition.trace(machine), machine), arch)


def test_wgsl_has_functions_for_words(tint: Tint, naga: Callable[[str], list[str]]) -> None:
    for target in (WgslTarget(u64=True, subgroup_size=32), WgslTarget(subgroup_size=32)):
        machine = target.machine(64)
        traced = SUMS.definition.trace(machine)
        text = wgsl.translate(traced, machine, dialect="naga").text
        assert naga(text) == []
        assert len(re.findall("subgroup(Add|Min|Max)", text)) == 5
        if not target.u64:
            rows = [Binding(number % 8, offset=True) for number in range(10)]
            text = wgsl.translate(traced, machine, dialect="tint", bindings=rows).text
            assert tint.errors(text) == []


def test_nan_and_zeros_of_floats() -> None:
    @kernel
    def extremes(k: Builder, x: Pointer[F32], y: Pointer[F32]) -> None:
        i = k.global_id()
        y[i * 3] = k.subgroup_minimum(x[i])
        y[i * 3 + 1] = k.subgroup_maximum(x[i])
        y[i * 3 + 2] = k.subgroup_sum(x[i])

    machine = Machine("llvm", 4, frozenset({"subgroup"}), subgroup_size=4)
    for x, least, greatest, total in (
        ([0.0, -0.0, 0.0, -0.0], -0.0, 0.0, 0.0),
        ([-0.0] * 4, -0.0, -0.0, -0.0),
        ([1.0, np.nan, -1.0, 2.0], np.nan, np.nan, np.nan),
        ([np.inf, 1.0, -np.inf, 2.0], -np.inf, np.inf, np.nan),
        ([1e30, 1.0, -1e30, 1.0], -1e30, 1e30, 2.0),
    ):
        y = np.zeros(12, np.float32)
        interpret(extremes.trace(machine), 1, [np.array(x, np.float32), y])
        assert_same_bits(y, np.array([least, greatest, total] * 4, np.float32), str(x))


def test_a_machine_without_subgroups() -> None:
    def sums(k: Builder, y: Pointer[F32]) -> None:
        y[0] = k.subgroup_sum(y[0])  # here

    refuses(
        sums, TraceError,
        "the machine for llvm has no subgroups; ask k.machine.has('subgroup') and use shared "
        "memory without them",
    )  # fmt: skip
