"""A runner of a kernel in the interpreter and on every executor, with bitwise comparison."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl.lowering import lower
from quod.codegen.wgsl.machine import PORTABLE
from quod.device.cpu.device import CpuDevice
from quod.device.cpu.processor import host_processor
from quod.errors import KernelError
from quod.kernel import KernelDefinition, Machine
from quod.kernel.builder.structs import with_structs
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types

Array = np.ndarray[Any, Any]
Argument = Array | int | float | bool

LANES = 8
"""Instances a workgroup that `groups` counts; an executor of one lane gets as many more groups."""

_AT_ONCE = 256
"""Instances that an interpreter runs in step."""


@dataclass(frozen=True)
class Executor:
    """One way to run kernels."""

    name: str
    machine: Machine
    run: Callable[[KernelDefinition, int, Sequence[Argument], dict[str, Any]], None]


def _cpu(name: str, strategy: str, lanes: int) -> Executor:
    device = CpuDevice(strategy=strategy, threads=1)

    def run(
        definition: KernelDefinition,
        groups: int,
        arguments: Sequence[Argument],
        static: dict[str, Any],
    ) -> None:
        compiled = device.compile(definition, lanes=lanes, **static)
        device.launch(compiled, groups, *with_structs(compiled.parameters, iter(arguments)))

    return Executor(name, device.machine(lanes), run)


def _ptx(workgroup_size: int) -> Executor:
    machine = ptx_machine(workgroup_size)

    def run(
        definition: KernelDefinition,
        groups: int,
        arguments: Sequence[Argument],
        static: dict[str, Any],
    ) -> None:
        module = ptx.translate(definition.trace(machine, **static), machine)
        interpret_ptx(
            module.text, groups, arguments, dynamic_shared=module.dynamic_shared_bytes,
            groups_at_once=_AT_ONCE // workgroup_size,
        )  # fmt: skip

    return Executor(f"PTX for {workgroup_size}", machine, run)


def _lowered(workgroup_size: int) -> Executor:
    """Kernels as they are lowered for portable WGSL, before they are written."""
    machine = PORTABLE.machine(workgroup_size)

    def run(
        definition: KernelDefinition,
        groups: int,
        arguments: Sequence[Argument],
        static: dict[str, Any],
    ) -> None:
        lowered = lower(definition.trace(machine, **static), machine).kernel
        lowered_arguments: list[Argument] = []
        words: list[tuple[Array, Array]] = []
        _, slots = definition.parameters_for(static)
        for argument, type_ in zip(arguments, slots.values(), strict=True):
            if isinstance(argument, np.ndarray):
                padded = np.zeros(-(-argument.nbytes // 4), np.uint32)
                padded.view(np.uint8)[: argument.nbytes] = argument.reshape(-1).view(np.uint8)
                words.append((argument, padded))
                lowered_arguments.append(padded)
            elif type_ in (types.u64, types.i64):
                lowered_arguments += [int(argument) & 0xFFFFFFFF, int(argument) >> 32 & 0xFFFFFFFF]
            else:
                lowered_arguments.append(argument)
        interpret(lowered, groups, lowered_arguments, groups_at_once=_AT_ONCE // workgroup_size)
        for argument, padded in words:
            argument.reshape(-1).view(np.uint8)[:] = padded.view(np.uint8)[: argument.nbytes]

    return Executor(f"lowered for WGSL, {workgroup_size} lanes", machine, run)


@functools.cache
def lowered_executor(groups: int) -> Executor:
    """Lowered kernels, in workgroups of a whole subgroup if the instances divide into them."""
    return _lowered(4 * LANES if groups % 4 == 0 else LANES)


_NOT_IN_WGSL = "WGSL has no|WGSL orders no|WGSL cannot"
"""Pattern of errors about kernels that WGSL cannot express."""


@functools.cache
def executors() -> list[Executor]:
    """The executors on the CPU: vectors with and without 52-bit multiply-add, and one lane."""
    cpu_executors = [_cpu("eight lanes", "scalar", 8), _cpu("one lane", "scalar", 1)]
    for strategy in ("avx2", "neon"):
        if strategy in host_processor().strategies:
            cpu_executors.append(_cpu(f"four lanes with {strategy}", strategy, 4))
    if host_processor().has_ifma:
        cpu_executors.insert(0, _cpu("eight lanes with IFMA", "ifma", 8))
    return cpu_executors


@functools.cache
def ptx_executor(groups: int) -> Executor:
    """PTX text, in workgroups of a whole warp if the instances divide into them."""
    return _ptx(4 * LANES if groups % 4 == 0 else LANES)


def _copied(arguments: Sequence[Argument]) -> list[Argument]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def _buffers(arguments: Sequence[Argument]) -> list[Array]:
    return [a for a in arguments if isinstance(a, np.ndarray)]


def assert_same_bits(actual: Array, expected: Array, what: str) -> None:
    """Assert that arrays are equal bit for bit; all NaN are equal."""
    same = actual.view(np.uint8).reshape(-1) == expected.view(np.uint8).reshape(-1)
    same = same.reshape(-1, actual.itemsize).all(axis=1)
    if actual.dtype.kind == "f":
        same |= (np.isnan(actual) & np.isnan(expected)).reshape(-1)
    if not same.all():
        at = int(np.argmin(same))
        raise AssertionError(
            f"{what}: element {at} is {actual.reshape(-1)[at]!r}, "
            f"and {expected.reshape(-1)[at]!r} was expected"
        )


def run_everywhere(
    definition: KernelDefinition,
    groups: int,
    arguments: Sequence[Argument],
    *,
    per_workgroup: bool = False,
    on_gpu: bool = True,
    lowered: bool = False,
    right: Sequence[Array] | None = None,
    **static: Any,
) -> list[Array]:
    """Run 8 * `groups` instances on every executor; return the buffers of the first machine.

    The fields of a struct are separate arguments, as for the interpreter. The arguments do not
    change. The buffers of each executor must equal those of the interpreter for the same machine.

    per_workgroup: the results depend on the workgroup size, so machines may differ.
    on_gpu: whether the kernel has PTX.
    lowered: whether to run the kernel as lowered for WGSL too, if WGSL can express it.
    right: the expected buffers, in place of a run of the interpreter, which takes long.
    """
    first: list[Array] | None = None
    interpreted: dict[Machine, list[Array]] = {}
    gpu = [ptx_executor(groups)] if on_gpu else []
    if lowered:
        gpu.append(lowered_executor(groups))
    for executor in (*executors(), *gpu):
        machine = executor.machine
        count = groups * LANES // machine.workgroup_size
        if right is not None:
            interpreted[machine] = list(right)
        if machine not in interpreted:
            copies = _copied(arguments)
            at_once = _AT_ONCE // machine.workgroup_size
            kernel = definition.trace(machine, **static)
            interpret(kernel, count, copies, groups_at_once=at_once)
            interpreted[machine] = _buffers(copies)
        expected = interpreted[machine]
        copies = _copied(arguments)
        try:
            executor.run(definition, count, copies, static)
        except KernelError as error:
            if machine.target == "wgsl" and re.search(_NOT_IN_WGSL, str(error)):
                continue
            raise
        for number, pair in enumerate(zip(_buffers(copies), expected, strict=True)):
            what = f"buffer {number} of {definition.name} on {executor.name}"
            assert_same_bits(*pair, what)
        if first is None:
            first = expected
        elif not per_workgroup:
            for number, pair in enumerate(zip(expected, first, strict=True)):
                what = f"buffer {number} of {definition.name}, interpreted for {executor.name}"
                assert_same_bits(*pair, what)
    assert first is not None
    return first
