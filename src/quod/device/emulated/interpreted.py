"""Traced kernels in the form that interpreting devices run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from quod.codegen.pointers import pointer_uses
from quod.device.cache.compiled_code import text_digest
from quod.device.memory.buffer import HOST, Array, Space
from quod.device.protocol import KernelRepr
from quod.device.runtime.arguments import Argument, Signature, Slots
from quod.device.runtime.recording import Memory
from quod.kernel.definition import KernelDefinition
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Block, Kernel, walk
from quod.kernel.ir.text import to_text
from quod.kernel.ir.types import PointerType
from quod.kernel.machine import Machine
from quod.kernel.ops.semantics import NUMPY_TYPES

_LANES_AT_ONCE = 512
"""The number of instances at a time for which the interpreter takes least time per instance."""


class InterpretedKernel(KernelRepr):
    """A kernel as it was traced, for the interpreter.

    The kernel accesses memory of `space`; each argument begins at a multiple of `alignment` bytes,
    if that is given. `groups_at_once` workgroups are interpreted in lockstep.
    """

    def __init__(
        self, definition: KernelDefinition, traced: Kernel, machine: Machine,
        static: Mapping[str, Any], *, space: Space = HOST, alignment: int | None = None,
    ) -> None:  # fmt: skip
        uses = pointer_uses(traced)
        self.name = definition.name
        # `slots` has the type of each argument slot.
        self.parameters, self.slots = definition.parameters_for(static)
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(uses.stored)
        # Indices of the pointers that are accessed before the wait for preceding launches.
        self.early = None if uses.early is None else frozenset(uses.early)
        self.traced = traced
        self.machine = machine
        self.space = space
        self.groups_at_once = _groups_at_once(traced)
        self.signature = Signature(self.name, self.slots, uses, space=space, alignment=alignment)

    @functools.cached_property
    def digest(self) -> str:
        """Digest of the IR.

        The IR is what runs, or what the code that runs is emitted from.
        """
        return text_digest(to_text(self.traced))

    def pack(self, arguments: tuple[Argument, ...]) -> Slots:
        """Check the arguments of a launch, and pack each into a slot of 8 bytes.

        Raises DeviceError for an argument that does not fit its parameter.
        """
        return self.signature.pack(arguments)

    def arrays(
        self, arguments: Iterable[Argument], bytes_of: Callable[[Memory], Array]
    ) -> list[Any]:
        """Return all arguments; memory becomes an array of its pointer's element type.

        bytes_of: returns the bytes of a buffer or array.
        """
        return [
            bytes_of(argument).view(NUMPY_TYPES[type_.element])  # type: ignore[arg-type]
            if isinstance(type_, PointerType)
            else argument
            for type_, argument in zip(self.slots.values(), arguments, strict=True)
        ]

    def run(
        self, groups: int, arrays: list[Any], waiting: Callable[[], None] | None = None
    ) -> None:
        """Interpret `groups` workgroups; raises InterpreterError for undefined behaviour.

        waiting: called when instances wait for earlier launches.
        """
        interpret(self.traced, groups, arrays, groups_at_once=self.groups_at_once, waiting=waiting)


def _groups_at_once(kernel: Kernel) -> int:
    """Return how many workgroups to interpret in lockstep.

    One if the kernel has fences: its workgroups may wait for earlier ones, which must have ended.
    """
    has_fences = any(op.name == "fence" for block in _blocks(kernel) for op in walk(block))
    return 1 if has_fences else max(1, _LANES_AT_ONCE // kernel.workgroup_size)


def _blocks(kernel: Kernel) -> Iterator[Block]:
    yield kernel.block
    for function in kernel.functions:
        yield function.block
