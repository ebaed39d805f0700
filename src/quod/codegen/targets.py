"""The targets: the languages that kernels are compiled to, one row each.

A target is a folder of this package and a row of `TARGETS`. The traced representation prints like a
target under the name ``ir``, but is not in `TARGETS`. The command line reads the names before it
parses a command, so this module imports neither emitters nor the kernel language.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quod.errors import InputError, KernelError
from quod.frozen import frozen, replace
from quod.names import NameTable
from quod.wording import alternatives

if TYPE_CHECKING:
    from quod.kernel.definition import KernelDefinition
    from quod.kernel.ir.nodes import Kernel
    from quod.kernel.machine import Machine
    from quod.kernel.registry import RegisteredKernel


@frozen
class Target:
    """A language that kernels are compiled to.

    write: the emitter, from a kernel traced for a machine to text.
    machine: the default machine.
    on_gpu: whether GPUs run the text. On a CPU a workgroup is one vector, and the subgroup size is
        a divisor of its size, at most 32.
    """

    write: Callable[[Kernel, Machine], str]
    machine: Callable[[], Machine]
    on_gpu: bool = True


def _write_ir(kernel: Kernel, _machine: Machine) -> str:
    from quod.kernel.ir.text import to_text

    return to_text(kernel)


def _write_llvm(kernel: Kernel, machine: Machine) -> str:
    from quod.codegen.llvm.emitter import emit

    return emit(kernel, machine)


def _llvm_machine() -> Machine:
    from quod.codegen.llvm.machine import EIGHT_LANES

    return EIGHT_LANES


def _write_ptx(kernel: Kernel, machine: Machine) -> str:
    from quod.codegen.ptx.emitter import emit

    return emit(kernel, machine)


def _ptx_machine() -> Machine:
    from quod.codegen.ptx.machine import ptx_machine

    return ptx_machine()


def _write_wgsl(kernel: Kernel, machine: Machine) -> str:
    from quod.codegen.wgsl.emitter import emit

    return emit(kernel, machine)


def _wgsl_machine() -> Machine:
    from quod.codegen.wgsl.machine import PORTABLE

    return PORTABLE.machine()


TARGETS: NameTable[Target] = NameTable(
    "quod.codegen.TARGETS",
    "a target",
    {
        "llvm": Target(_write_llvm, _llvm_machine, on_gpu=False),
        "ptx": Target(_write_ptx, _ptx_machine),
        "wgsl": Target(_write_wgsl, _wgsl_machine),
    },
)
"""The targets by name; the name is also `Machine.target` of their machines."""

_IR = Target(_write_ir, _llvm_machine, on_gpu=False)


def target_of(name: str) -> Target:
    """Return the target of a name, or the one that prints ``ir``; InputError for any other name."""
    if name == "ir":
        return _IR
    if name not in TARGETS:
        raise InputError(f"there is no target {name}; take one of {', '.join(('ir', *TARGETS))}")
    return TARGETS[name]


def emit(
    kernel: KernelDefinition, /, target: str = "ir", machine: Machine | None = None, **static: Any
) -> str:
    """Return the text of a kernel as ``ir``, ``llvm``, ``ptx`` or ``wgsl``, without a device.

    Default machines: eight lanes without special features for ``ir`` and ``llvm``, sm_90a for
    ``ptx``, browsers for ``wgsl``. Raises InputError for an unknown target, and KernelError if the
    kernel is wrong.
    """
    from quod.kernel.registry import RegisteredKernel

    return emit_registered(RegisteredKernel(kernel.name, kernel, static), target, machine)


def emit_registered(
    kernel: RegisteredKernel, target: str = "ir", machine: Machine | None = None
) -> str:
    """Return the text of a kernel whose static parameters have values.

    The default is the target's default machine, with the kernel's workgroup size if the kernel
    fixes one. Raises InputError for an unknown target, and KernelError if the machine cannot run
    the kernel; the error names the targets that can.
    """
    language = target_of(target)
    kernel.check_static()
    target_machine = machine or _machine_for(kernel, language)
    try:
        traced = kernel.trace(target_machine)
    except KernelError as error:
        if machine is not None and is_written_for(kernel, target):
            raise
        others = [name for name in TARGETS if name != target and is_written_for(kernel, name)]
        if not others:
            raise KernelError(f"the kernel {kernel.name} cannot be traced: {error}") from error
        raise KernelError(
            f"the kernel {kernel.name} is not written for the machine of {target} (take the "
            f"target {alternatives(others)}): {error}"
        ) from error
    return language.write(traced, target_machine)


def is_written_for(kernel: RegisteredKernel, target: str) -> bool:
    """Return whether a kernel traces for a target's default machine; some are for CPUs only."""
    try:
        kernel.trace(_machine_for(kernel, target_of(target)))
    except KernelError:
        return False
    return True


def _machine_for(kernel: RegisteredKernel, target: Target) -> Machine:
    """Return the target's default machine, with the kernel's workgroup size if it fixes one."""
    machine, size = target.machine(), kernel.definition.workgroup
    if size is None:
        return machine
    subgroup = machine.subgroup_size if target.on_gpu else math.gcd(size, 32)
    return replace(machine, workgroup_size=size, subgroup_size=subgroup)
