"""What an instance of a kernel needs and does, on an NVIDIA GPU, with or without an assembler."""

from __future__ import annotations

from collections.abc import Mapping

from quod.codegen.ptx.assembler import AssemblerMissing, assemble
from quod.codegen.ptx.assembler import usage as read_log
from quod.codegen.ptx.emitter import emit
from quod.codegen.ptx.machine import DEFAULT_ARCH, DEFAULT_WORKGROUP_SIZE, ptx_machine
from quod.frozen import frozen
from quod.kernel.analysis import analyze
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


def usage(found: RegisteredKernel, arch: str | None, workgroup: int | None) -> KernelUsage:
    """Traces a kernel, counts, and has it assembled; KernelError if it is wrong."""
    arch = arch or DEFAULT_ARCH
    size = workgroup or found.definition.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    kernel = found.trace(machine)
    analysis = analyze(kernel)
    told = (kernel.shared_bytes, analysis.pressure.words, dict(analysis.mix.whole()))
    try:
        needs = read_log(assemble(emit(kernel, machine), arch)[1])
    except AssemblerMissing as error:
        return KernelUsage(arch, size, None, None, None, *told, str(error))
    spilled = needs.spill_store_bytes + needs.spill_load_bytes
    return KernelUsage(arch, size, needs.registers, spilled, needs.stack_bytes, *told)
