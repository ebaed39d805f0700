"""Tiles of a matrix of blocks as the second operand of a product, dequantised on the way.

A place of a group holds an element of each run. So that loaded data is used at once, a step over K
takes some places of a group, with the elements of all runs there: see `order_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quod.kernel import Builder, Value, bf16
from quod.kernel.ir.types import Type
from quod.tensor.matmul.tensor_cores import Ring
from quod.tensor.matmul.tiles import (
    CachedTile,
    DepthOrder,
    Edges,
    SharedTile,
    SharedTileMemory,
    Staged,
    log2,
)
from quod.tensor.quantised.decoders import BlockDecoder, DecodePosition, Index

Runs = list[list[Value]]

_TOGETHER = 8
"""The most 16-bit elements of a store."""
_WORDS = 4


def order_of(decoder: BlockDecoder, depth: int) -> DepthOrder:
    """Return the order in which steps of `depth` take K: all runs at some places of a group."""
    return DepthOrder(depth // decoder.runs, decoder.positions, decoder.runs)


class _Rows:
    """The rows of a matrix of blocks."""

    def __init__(self, k: Builder, decoder: BlockDecoder, operand: Edges) -> None:
        self._k, self.decoder, self._operand = k, decoder, operand
        self.size = decoder.positions * decoder.runs
        """Elements of a group."""

    def runs(self, line: Value, group: Value, position: Value, sixteen: Index, width: int) -> Runs:
        """Return the values at places of a group of a line of the tile, by runs.

        Lines beyond the matrix are clamped; they belong to no result.
        """
        k, operand, decoder = self._k, self._operand, self.decoder
        row = k.minimum(operand.first + line, operand.extent - 1)
        block = row * (operand.depth // decoder.elements) + (group >> log2(decoder.groups))
        place = DecodePosition(block, group & (decoder.groups - 1), position, sixteen, width)
        return [run.fused(k) for run in decoder.decode(k, operand.pointer, place)]


class _InstanceParts(_Rows):
    """The parts of a tile that an instance of a GPU dequantises in each step."""

    def __init__(
        self, k: Builder, decoder: BlockDecoder, operand: Edges, width: int, depth: int
    ) -> None:
        super().__init__(k, decoder, operand)
        self._step = depth // decoder.runs
        even = width * depth // (decoder.runs * k.workgroup_size)
        self.places = max(1, min(decoder.width, self._step, even))
        """Places that are decoded at a time."""
        per_line = self._step // self.places
        numbers = [k.local_id() + at for at in range(0, width * per_line, k.workgroup_size)]
        # Eight adjacent lines are stored to different banks.
        self._own = [
            (each // (8 * per_line) * 8 + each % 8, each // 8 % per_line * self.places)
            for each in numbers
        ]

    def dequantised(self, start: Value) -> Staged:
        """Return the values of the instance's parts, by runs, for the step from k = `start`.

        A step beyond the end has those of the last group.
        """
        k, size = self._k, self.size
        group = k.minimum(start >> log2(size), self._operand.depth // size - 1)
        first, staged = start & (size - 1), []
        for line, behind in self._own:
            position = first + behind
            runs = self.runs(line, group, position, position >> 4, self.places)
            staged.append(tuple(value for run in runs for value in run))
        return staged

    def places_of(self, staged: Staged) -> Iterator[tuple[Value, Value, Sequence[Value]]]:
        """Yield the line, the first element in the step, and the adjacent values of each run."""
        for (line, position), values in zip(self._own, staged, strict=True):
            for run in range(self.decoder.runs):
                run_values = values[run * self.places : (run + 1) * self.places]
                yield line, position + run * self._step, run_values


class SharedBlocks(SharedTile):
    """A tile of f32 that all instances fill through registers."""

    def __init__(
        self, decoder: BlockDecoder, k: Builder, element: Type, operand: Edges, width: int,
        depth: int, vector: int, stages: int,
    ) -> None:  # fmt: skip
        SharedTileMemory.__init__(self, k, width, depth, stages, along=False)
        self._shares = _InstanceParts(k, decoder, operand, width, depth)

    def read(self, start: Value) -> Staged:
        """Return the instance's values of the tile that begins at k = `start`."""
        return self._shares.dequantised(start)

    def write(self, staged: Staged, stage: Value) -> None:
        """Store the values in shared memory."""
        first = stage * self._size
        for line, begin, values in self._shares.places_of(staged):
            for number, value in enumerate(values):
                self._room[first + (begin + number) * self._pitch + line] = value


class BlockRing(Ring):
    """Tiles of 16 bits in a ring, rounded from the values of blocks."""

    def __init__(self, decoder: BlockDecoder, *arguments: Any, is_first: bool) -> None:
        self._decoder = decoder
        super().__init__(*arguments, is_first=is_first)

    def _share_out(self, lanes: int) -> None:
        self._shares = _InstanceParts(
            self._k, self._decoder, self._operand, self._width, self._depth
        )

    def copy(self, step: Value) -> None:
        """Dequantise a step of K into its stage."""
        k, stage = self._k, step % self._stages * self._size
        pack = k.pack_bf16 if self._element is bf16 else k.pack_f16
        staged = self._shares.dequantised(self._operand.begin(step, self._depth))
        for line, begin, values in self._shares.places_of(staged):
            for first in range(0, len(values), _TOGETHER):
                group_values = values[first : first + _TOGETHER]
                words = [
                    pack(*group_values[pair : pair + 2]) for pair in range(0, len(group_values), 2)
                ]
                at = begin + first
                place = self._exchanged(line, at // _TOGETHER) * _WORDS
                inside = at % _TOGETHER // (2 * len(words)) * len(words)
                k.store(self._room, stage + line * self._pitch + place + inside, *words)


class CachedBlocks(CachedTile):
    """A tile of f32 that the lanes of a CPU vector fill, each at adjacent places."""

    def __init__(
        self, decoder: BlockDecoder, k: Builder, element: Type, operand: Edges, width: int,
        depth: int, panel: int, *, kept: bool,
    ) -> None:  # fmt: skip
        super().__init__(k, element, operand, width, depth, panel, kept=kept)
        self._rows = _Rows(k, decoder, operand)

    def fill(self, start: Value, count: Value) -> None:
        """Fill the tile with `count` of K from `start` on, a whole number of groups."""
        k, size, positions = self._k, self._rows.size, self._rows.decoder.positions
        lane, lanes = k.local_id(), k.workgroup_size
        with k.range(0, count // size) as groups, k.range(0, self._width) as lines:
            group, line = start // size + groups.index, lines.index
            of_line = line // self._panel * (self._panel * self._at_once) + line % self._panel
            target = k.pointer_add(self._room, groups.index * (size * self._panel) + of_line)
            for first in range(0, positions, lanes):
                position = lane + first
                sixteen = first // 16 if lanes <= 16 else position >> 4
                runs = self._rows.runs(line, group, position, sixteen, 1)
                for number, run in enumerate(runs):
                    target[(position + number * positions) * self._panel] = run[0]
