"""The intermediate representation: structured, region-based SSA in trace order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from quod.frozen import frozen
from quod.kernel.ops import OPS, OpDefinition
from quod.kernel.types import Type

if TYPE_CHECKING:
    from quod.kernel.value import Value


@frozen
class Location:
    """The Python source line that made an op."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Op:
    """One operation: its operands, results, attributes and regions."""

    __slots__ = ("attributes", "location", "name", "operands", "regions", "results")

    def __init__(
        self, name: str, operands: tuple[Value, ...], results: tuple[Value, ...],
        attributes: dict[str, Any], regions: tuple[Block, ...], location: Location,
    ) -> None:  # fmt: skip
        self.name = name
        self.operands = operands
        self.results = results
        self.attributes = attributes
        self.regions = regions
        self.location = location

    @property
    def definition(self) -> OpDefinition:
        return OPS[self.name]

    @property
    def conditions(self) -> tuple[Value, ...]:
        """What says which way the instances go through the regions."""
        count = self.definition.deciding
        return self.operands[:count] if count else self.regions[0].yielded[:1]

    @property
    def initial(self) -> tuple[Value, ...]:
        """What a loop begins to carry."""
        return self.operands[self.definition.deciding :]

    @property
    def carried(self) -> tuple[Value, ...]:
        """What a loop carries, in its first region; the index of a counted loop is not among it."""
        arguments = self.regions[0].arguments
        return arguments[len(arguments) - len(self.initial) :]


class Block:
    """A region: arguments, then ops, the last of which is a yield once the region is closed."""

    __slots__ = ("arguments", "ops")

    def __init__(self, arguments: tuple[Value, ...] = (), ops: list[Op] | None = None) -> None:
        self.arguments = arguments
        self.ops = [] if ops is None else ops

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The values that the region gives."""
        return self.ops[-1].operands if self.ops and self.ops[-1].name == "yield" else ()


class Function:
    """A device function: traced once a set of argument types, then called."""

    __slots__ = ("block", "inline", "location", "name")

    def __init__(
        self, name: str, block: Block, location: Location, inline: bool = False
    ) -> None:  # fmt: skip
        self.name = name
        self.block = block
        self.location = location
        self.inline = inline

    @property
    def result_types(self) -> list[Type]:
        return [value.type for value in self.block.yielded]


class Kernel:
    """A traced kernel: one specialisation of one Python function for one target.

    `resident` is a hint: registers are limited so that as many workgroups fit one multiprocessor;
    0 leaves the choice to the assembler.
    """

    def __init__(
        self, name: str, parameters: tuple[str, ...], block: Block, workgroup_size: int,
        functions: list[Function], location: Location, shared_bytes: int = 0,
        subgroup_size: int = 1, resident: int = 0,
    ) -> None:  # fmt: skip
        self.name = name
        self.parameters = parameters
        self.block = block
        self.workgroup_size = workgroup_size
        self.functions = functions
        self.location = location
        self.shared_bytes = shared_bytes
        self.subgroup_size = subgroup_size
        self.resident = resident


def walk(block: Block) -> Iterator[Op]:
    """All ops of a region and of the regions within, in order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
