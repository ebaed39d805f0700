"""The registry of kernels by name.

`quod.catalogue` lists the modules and loads them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from quod.errors import KernelError
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel
from quod.kernel.machine import Machine


def _advice(name: str, annotation: Any) -> str:
    """Return advice on giving a static parameter a value, with an example of its annotated type."""
    type_ = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "int")
    value = "4"
    if type_.rpartition(".")[2] == "Modulus":
        value = 'MODULI["bn254.fr"]'
    elif type_ not in ("int", "_empty"):
        value = f"{type_}(...)"
    type_ = "int" if type_ == "_empty" else type_
    return (
        f"write a default in its signature ({name}: {type_} = {value}), or give the value in "
        f"Python: quod.codegen.emit(kernel, {name}={value})"
    )


@frozen(eq=False)
class RegisteredKernel:
    """A kernel with its static arguments, which can be traced for any machine."""

    name: str
    definition: KernelDefinition
    static: Mapping[str, Any] = MappingProxyType({})

    def check_static(self) -> None:
        """Raise KernelError if a static parameter has no value, or if a static name is unknown."""
        declared = inspect.signature(self.definition.function).parameters
        parameters = {
            name: parameter
            for name, parameter in declared.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and name not in self.static
        ]
        if missing:
            raise KernelError(
                f"the kernel {self.name} has static parameters without a value: "
                f"{', '.join(missing)}; {_advice(missing[0], parameters[missing[0]].annotation)}"
            )
        if unknown := sorted(set(self.static) - set(parameters)):
            raise KernelError(f"the kernel {self.name} has no static parameter {unknown[0]}")

    def trace(self, machine: Machine) -> Kernel:
        """Trace the kernel for one machine; return its IR."""
        return self.definition.trace(machine, **self.static)


_registered: dict[str, RegisteredKernel] = {}


def register(name: str, definition: KernelDefinition, **static: Any) -> KernelDefinition:
    """Register a kernel with static arguments under a name; return the definition.

    Raises KernelError if the name is taken.
    """
    if name in _registered:
        raise KernelError(f"the kernel name {name} is taken; name each instance once")
    _registered[name] = RegisteredKernel(name, definition, static)
    return definition


def registered() -> Mapping[str, RegisteredKernel]:
    """Return the kernels that the loaded modules have registered, by name."""
    return MappingProxyType(_registered)
