"""A kernel bound to a device, which computes the number of workgroups from its arguments."""

from __future__ import annotations

import operator
from typing import Any, Generic, Protocol, TypeVar

from quod.errors import DeviceError, KernelError
from quod.kernel.compiled import Compiled
from quod.validation import shown
from quod.wording import listed

Groups = int | tuple[int, ...]
"""A count of workgroups: one number, or one along each axis of the grid."""


K = TypeVar("K", bound=Compiled)


class Launches(Protocol[K]):
    """The interface of a device that compiles and launches kernels."""

    def compile(self, definition: Any, *, lanes: int | None = None, **static: Any) -> K: ...

    def launch(self, kernel: K, groups: Groups, *arguments: Any) -> None: ...


class Launcher(Generic[K]):
    """A kernel compiled for a device, to be called with the kernel's arguments.

    `kernel` is the compiled kernel, for `device.launch` and recordings; `groups` computes their
    number of workgroups.
    """

    def __init__(
        self, device: Launches[K], kernel: K, instances: tuple[str, ...],
        shape: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Compute launches from the parameters `instances`, the number of instances per axis.

        shape: extents of a workgroup, by default all instances along the first axis.
        """
        self.device = device
        self.kernel = kernel
        self._instances = instances
        self._shape = shape or (kernel.lanes, *[1] * (len(instances) - 1))
        names = list(kernel.parameters)
        self._instance_positions = [names.index(name) for name in instances]

    def groups(self, *instances: int) -> Groups:
        """Return the workgroups for a number of instances per axis: a tuple for several axes.

        Raises DeviceError if a number of instances is out of the parameter's range.
        """
        pairs = zip(self._instances, instances, self._shape, strict=True)
        counts = tuple(self._workgroups_along(*pair) for pair in pairs)
        return counts[0] if len(counts) == 1 else counts

    def _workgroups_along(self, name: str, instances: int, extent: int) -> int:
        type_ = self.kernel.slots[name]
        try:
            number = operator.index(instances)
        except Exception:
            # An argument's `__index__` may raise anything.
            number = -1
        if not 0 <= number < 1 << type_.bits:
            raise DeviceError(
                f"argument {name} of kernel {self.kernel.name} is the number of "
                f"instances, a whole number from 0 to 2**{type_.bits} - 1, not {shown(instances)}"
            )
        return -(-number // extent)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launch enough workgroups for the instances and wait for them.

        Arguments are those of `device.launch`, by position or name. Raises DeviceError if one is
        missing, unknown or invalid.
        """
        ordered = self._ordered(arguments, named)
        groups = self.groups(*(ordered[position] for position in self._instance_positions))
        self.device.launch(self.kernel, groups, *ordered)

    def _ordered(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = tuple(self.kernel.parameters)
        positional, by_name = names[: len(arguments)], names[len(arguments) :]
        problems = listed(
            {
                "twice": [name for name in positional if name in named],
                "missing": [name for name in by_name if name not in named],
                "unknown": [name for name in named if name not in names],
            }
        )
        if len(arguments) > len(names) or problems:
            raise DeviceError(
                f"kernel {self.kernel.name} takes {len(names)} arguments ({', '.join(names)}); "
                f"{problems or f'the call has {len(arguments)}'}"
            )
        return (*arguments, *(named[name] for name in by_name))

    def __repr__(self) -> str:
        return f"<{self.kernel.name} on {self.device!r}, workgroups of {self.kernel.lanes}>"


def bind(
    definition: Any, device: Launches[K], lanes: int | None, static: dict[str, Any]
) -> Launcher[K]:
    """Compile a kernel and return its launcher.

    Raises KernelError if no parameter is known to be the number of instances.
    """
    if not definition.instances:
        raise KernelError(
            f"no parameter of kernel {definition.name} is known to be the number of instances; "
            'call an integer parameter n, name another with @kernel(instances="..."), or use '
            "device.launch(kernel, groups, ...)"
        )
    compiled = device.compile(definition, lanes=lanes, **static)
    return Launcher(device, compiled, definition.instances, definition.shape)
