"""Resource usage of a kernel on an NVIDIA GPU, with or without an assembler."""

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
    """The resource usage of a kernel on one architecture.

    arch, workgroup: the architecture and the workgroup size.
    registers, spilled_bytes, stack_bytes: per instance, from the assembler; None without nvJitLink.
        Spilled bytes are the bytes stored plus the bytes loaded.
    shared_bytes: per workgroup.
    live_words: the estimated maximum of live 32-bit words.
    counts: the instruction mix per instance, with one iteration of each loop of unknown
        length.
    missing: the reason why there is no assembler, or empty.
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
    """Compute a kernel's registers, memory and instruction mix on an NVIDIA GPU, without one.

    `arch` defaults to ``sm_90a``, `workgroup` (the workgroup size) to the kernel's. KernelError for
    an invalid kernel.
    """
    RegisteredKernel(kernel.name, kernel, static).check_static()
    arch = arch or DEFAULT_ARCH
    size = workgroup or kernel.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    traced = kernel.trace(machine, **static)
    analysis = analyze(traced)
    estimates = (traced.shared_bytes, analysis.pressure.words, dict(analysis.mix.whole()))
    try:
        assembled = read_log(assemble(emit(traced, machine), arch)[1])
    except AssemblerMissing as error:
        return KernelUsage(arch, size, None, None, None, *estimates, str(error))
    spilled_bytes = assembled.spill_store_bytes + assembled.spill_load_bytes
    return KernelUsage(
        arch, size, assembled.registers, spilled_bytes, assembled.stack_bytes, *estimates
    )
