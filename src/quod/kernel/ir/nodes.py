"""The intermediate representation: structured, region-based SSA in trace order."""

from __future__ import annotations

from collections.abc import Iterator

from quod.kernel.errors import Location
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Block, Op

__all__ = ["Block", "Function", "Kernel", "Location", "Op", "walk"]


class Function:
    """A device function, traced once per set of argument types."""

    __slots__ = ("block", "inline", "location", "name")

    def __init__(
        self, name: str, block: Block, location: Location, inline: bool = False
    ) -> None:  # fmt: skip
        self.name = name
        self.block = block
        self.location = location
        self.inline = inline

    @property
    def result_types(self) -> tuple[Type, ...]:
        return tuple([value.type for value in self.block.yielded])


class Kernel:
    """A traced kernel: one specialisation of one Python function for one target.

    resident: a hint to limit registers so that this many workgroups fit on a multiprocessor; 0
        leaves the number of registers to the assembler.
    cluster: the number of workgroups in a cluster.
    constant: names of the parameters whose arrays no overlapping launch stores to.
    """

    def __init__(
        self, name: str, parameters: tuple[str, ...], block: Block, workgroup_size: int,
        functions: list[Function], location: Location, shared_bytes: int = 0,
        subgroup_size: int = 1, resident: int = 0, cluster: int = 1,
        constant: tuple[str, ...] = (),
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
        self.cluster = cluster
        self.constant = constant


def walk(block: Block) -> Iterator[Op]:
    """Iterate over all ops of a region and its nested regions, in order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
