"""The intermediate representation: structured, region-based SSA in trace order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quod.kernel.ops import OPS, OpDefinition
from quod.kernel.types import Type

if TYPE_CHECKING:
    from quod.kernel.value import Value


@dataclass(frozen=True, slots=True)
class Location:
    """The Python source line that made an op."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(eq=False, slots=True)
class Op:
    """One operation: its operands, results, attributes and regions."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: dict[str, Any]
    regions: tuple[Block, ...]
    location: Location

    @property
    def definition(self) -> OpDefinition:
        return OPS[self.name]


@dataclass(eq=False, slots=True)
class Block:
    """A region: arguments, then ops, the last of which is a yield once the region is closed."""

    arguments: tuple[Value, ...] = ()
    ops: list[Op] = field(default_factory=list)

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The values that the region gives."""
        return self.ops[-1].operands if self.ops and self.ops[-1].name == "yield" else ()


@dataclass(eq=False, slots=True)
class Function:
    """A device function: traced once a set of argument types, then called."""

    name: str
    block: Block
    location: Location
    inline: bool = False

    @property
    def result_types(self) -> list[Type]:
        return [value.type for value in self.block.yielded]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Kernel:
    """A traced kernel: one specialisation of one Python function for one target.

    `resident` is a hint: registers are limited so that as many workgroups fit one multiprocessor;
    0 leaves the choice to the assembler.
    """

    name: str
    parameters: tuple[str, ...]
    block: Block
    workgroup_size: int
    functions: list[Function]
    location: Location
    shared_bytes: int = 0
    subgroup_size: int = 1
    resident: int = 0


def walk(block: Block) -> Iterator[Op]:
    """All ops of a region and of the regions within, in order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
