"""The kernels that Quod is made of, by name.

A package keeps the kernels that it registers in a module `kernels`, which is imported when someone
asks for the list. The text of a kernel for a target comes from `emitters`; a target that is not
there yet is the package of that name in `quod.codegen`, whose `emitter` has a function `emit`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quod.errors import InputError, KernelError
from quod.frozen import frozen, replace
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel
from quod.kernel.machine import Capability, Machine
from quod.names import nearest

if TYPE_CHECKING:
    from quod.kernel.launcher import KernelUsage


def _advice(name: str, annotation: Any) -> str:
    """Advice on giving a static parameter a value, by its annotation."""
    type_ = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "int")
    value = "4"
    if type_.rpartition(".")[2] == "Modulus":
        value = 'MODULI["bn254.fr"]'
    elif type_ not in ("int", "_empty"):
        value = f"{type_}(...)"
    type_ = "int" if type_ == "_empty" else type_
    return (
        f"write a default in its signature ({name}: {type_} = {value}), or give the value in "
        f"Python: kernel.emit({name}={value})"
    )


Emitter = Callable[[Kernel, Machine], str]


@frozen(eq=False)
class RegisteredKernel:
    """A kernel with all that is static in it: it can be traced for any machine."""

    name: str
    definition: KernelDefinition
    static: Mapping[str, Any] = MappingProxyType({})

    def check_static(self) -> None:
        """KernelError unless the static parameters have values, and no others."""
        wanted = inspect.signature(self.definition.function).parameters
        known = {name: row for name, row in wanted.items() if row.kind is row.KEYWORD_ONLY}
        missing = [
            name
            for name, row in known.items()
            if row.default is row.empty and name not in self.static
        ]
        if missing:
            raise KernelError(
                f"the kernel {self.name} has static parameters without a value: "
                f"{', '.join(missing)}; {_advice(missing[0], known[missing[0]].annotation)}"
            )
        if unknown := sorted(set(self.static) - set(known)):
            raise KernelError(f"the kernel {self.name} has no static parameter {unknown[0]}")

    def trace(self, machine: Machine) -> Kernel:
        """The kernel's IR for one machine."""
        return self.definition.trace(machine, **self.static)


@frozen
class KernelRow:
    """What a list of kernels shows: `parameters` as in ``n: u32``, `doc` one paragraph."""

    name: str
    parameters: list[str]
    doc: str


def usage_of(found: RegisteredKernel, arch: str | None, workgroup: int | None) -> KernelUsage:
    """What a kernel needs and does on an NVIDIA GPU."""
    module = importlib.import_module("quod.codegen.usage")
    usage: KernelUsage = module.usage(found, arch, workgroup)
    return usage


def _representation(kernel: Kernel, _machine: Machine) -> str:
    from quod.kernel.ir.text import to_text

    return to_text(kernel)


emitters: dict[str, Emitter] = {"ir": _representation}
"""How a kernel is printed for a target."""

default_machines: dict[str, Callable[[], Machine]] = {}
"""What a target's text is for unless told otherwise, where that is not the machine of `emit`."""

_TARGETS = ("llvm", "ptx", "wgsl")

_registered: dict[str, RegisteredKernel] = {}


def register(name: str, definition: KernelDefinition, **static: Any) -> KernelDefinition:
    """Names a kernel, with the static parameters that make an instance of it; gives it back."""
    if name in _registered:
        raise KernelError(f"the kernel name {name} is taken; name each instance once")
    _registered[name] = RegisteredKernel(name, definition, static)
    return definition


def kernels() -> list[KernelRow]:
    """All kernels, in the order of their names."""
    _import_kernels()
    return [
        KernelRow(
            name,
            [f"{parameter}: {type_}" for parameter, type_ in row.definition.parameters.items()],
            row.definition.doc,
        )
        for name, row in sorted(_registered.items())
    ]


def find(name: str) -> RegisteredKernel:
    """The kernel of that name, or the one of a file that ``path.py:name`` says, which is run.

    InputError says which name may have been meant, KernelError that a kernel of a file has static
    parameters without defaults.
    """
    if ".py:" in name:
        from quod.kernel.load import load

        loaded = RegisteredKernel(name, load(name))
        loaded.check_static()
        return loaded
    _import_kernels()
    if name not in _registered:
        close = nearest(name, _registered, 0.5)
        hint = (
            f"did you mean {close}?"
            if close
            else ("`quod kernel list` shows the names, and a kernel of a file is path.py:name")
        )
        raise InputError(f"there is no kernel {name}; {hint}")
    return _registered[name]


def emit(name: str, target: str = "ir", machine: Machine | None = None) -> str:
    """The text of a kernel: ``ir``, or the language of a target, ``llvm``, ``ptx`` or ``wgsl``.

    `name` is what `find` takes. InputError for an unknown kernel or target, else as `emit_kernel`.
    """
    _emitter(target)
    return emit_kernel(find(name), target, machine)


def emit_kernel(found: RegisteredKernel, target: str = "ir", machine: Machine | None = None) -> str:
    """The text of a kernel, which need not be registered.

    Without a machine it is for the target's own default, else for eight lanes of a processor, which
    are a subgroup, in workgroups as the kernel wants them. InputError for an unknown target;
    KernelError, with the targets that the kernel is written for, if that is none of them, or with
    what it has against that machine.
    """
    emitter, name = _emitter(target), found.name
    found.check_static()
    chosen = machine or _machine_of(found, target)
    try:
        traced = found.trace(chosen)
    except KernelError as error:
        if machine is not None and is_written_for(found, target):
            raise
        others = [other for other in _TARGETS if other != target and is_written_for(found, other)]
        if not others:
            raise KernelError(f"the kernel {name} cannot be traced: {error}") from error
        raise KernelError(
            f"the kernel {name} is not written for the machine of {target} (take the target "
            f"{' or '.join(others)}): {error}"
        ) from error
    return emitter(traced, chosen)


def _default_machine(target: str) -> Machine:
    _emitter(target)
    if target in default_machines:
        return default_machines[target]()
    machine = Machine("llvm" if target == "ir" else target, 8, frozenset({Capability.U64}))
    if machine.target == "llvm":
        features = machine.features | {Capability.SUBGROUPS}
        return replace(machine, features=features, subgroup_size=machine.workgroup_size)
    return machine


def _machine_of(kernel: RegisteredKernel, target: str) -> Machine:
    """The target's machine, with workgroups of the kernel's own size if it has one."""
    machine, size = _default_machine(target), kernel.definition.workgroup
    if size is None:
        return machine
    if machine.has(Capability.SUBGROUPS) and machine.target == "llvm":
        # On a processor, subgroups divide the workgroup.
        machine = replace(machine, subgroup_size=math.gcd(size, 32))
    return replace(machine, workgroup_size=size)


def is_written_for(kernel: RegisteredKernel, target: str) -> bool:
    """Whether a target's own machine takes a kernel: some are for processors alone."""
    try:
        kernel.trace(_machine_of(kernel, target))
    except KernelError:
        return False
    return True


def _emitter(target: str) -> Emitter:
    if target not in emitters:
        import importlib.util

        package = f"quod.codegen.{target}"
        found = importlib.util.find_spec(package) if target.isidentifier() else None
        if found is None or found.submodule_search_locations is None:
            raise InputError(f"there is no target {target}; take one of ir, llvm, ptx, wgsl")
        emitters[target] = importlib.import_module(f"{package}.emitter").emit
    return emitters[target]


def _import_kernels() -> None:
    """Imports the module `kernels` of every package of Quod that has one."""
    # What the root names is above this module.
    import quod

    _import_kernels_below(tuple(quod.__path__))


@functools.cache
def _import_kernels_below(roots: tuple[str, ...]) -> None:
    import pkgutil

    importlib.import_module("quod.kernel.examples")
    for package in pkgutil.iter_modules(roots, "quod."):
        folders = [os.path.join(root, package.name.rpartition(".")[2]) for root in roots]
        # A package that has no such module is not imported for the question.
        if package.ispkg and "kernels" in {module.name for module in pkgutil.iter_modules(folders)}:
            importlib.import_module(f"{package.name}.kernels")
