"""What an instance of a kernel needs and does, on an NVIDIA GPU, with or without an assembler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quod.codegen.ptx.assembler import AssemblerMissing, assemble
from quod.codegen.ptx.assembler import usage as read_log
from quod.codegen.ptx.emitter import emit
from quod.codegen.ptx.machine import DEFAULT_ARCH, DEFAULT_WORKGROUP_SIZE, ptx_machine
from quod.frozen import frozen
from quod.kernel.analysis import analyze
from quod.kernel.definition import KernelDefinition
from quod.kernel.registry import RegisteredKernel


@frozen
class KernelUsage:
    """Of one architecture and workgroups of `workgroup` instances.

    `registers`, `spilled_bytes` and `stack_bytes` of an instance are the assembler's; None where
    there is no nvJitLink, which `missing` tells. `shared_bytes` is for a workgroup. `live_words`
    are words that live at once, and `counts` what an instance does, a round of each loop of unknown
    length: multiply-adds, additions, floats, bytes loaded and stored, and more.
    """

    arch: str
    workgroup: int
    registers: int | None
    spilled_bytes: int | None
    stack_bytes: int | None
    shared_bytes: int
    live_words: int
    counts: Mapping[str, int]
    missing: str = ""


def kernel_usage(
    kernel: KernelDefinition, /, arch: str | None = None, *, workgroup: int | None = None,
    **static: Any,
) -> KernelUsage:  # fmt: skip
    """Registers, memory and instructions of an instance on an NVIDIA GPU; none need be there.

    `arch` is an architecture, by default ``sm_90a``; `workgroup` the instances of a workgroup.
    KernelError if the kernel is wrong.
    """
    RegisteredKernel(kernel.name, kernel, static).check_static()
    arch = arch or DEFAULT_ARCH
    size = workgroup or kernel.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    traced = kernel.trace(machine, **static)
    analysis = analyze(traced)
    told = (traced.shared_bytes, analysis.pressure.words, dict(analysis.mix.whole()))
    try:
        needs = read_log(assemble(emit(traced, machine), arch)[1])
    except AssemblerMissing as error:
        return KernelUsage(arch, size, None, None, None, *told, str(error))
    spilled = needs.spill_store_bytes + needs.spill_load_bytes
    return KernelUsage(arch, size, needs.registers, spilled, needs.stack_bytes, *told)
