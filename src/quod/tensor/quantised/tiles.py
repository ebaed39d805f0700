"""Tiles of a quantised matrix, as the right operand B of a product, dequantised when loaded.

A block consists of groups, and a group of *runs* of consecutive elements. One load returns packed
elements of all runs at the same positions. To use all of them in one step over K, a step covers
some positions of a group in all of its runs; see `order_of`.
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

_MAX_VECTOR = 8
"""The maximum number of 16-bit elements of a store."""
_WORDS = 4
"""Words of an access, which the swizzle of a ring moves as a whole."""


def order_of(decoder: BlockDecoder, depth: int) -> DepthOrder:
    """Return the order of K in which a step of `depth` has some positions of all runs."""
    return DepthOrder(depth // decoder.runs, decoder.positions, decoder.runs)


class _Rows:
    """The rows of a quantised matrix."""

    def __init__(self, k: Builder, decoder: BlockDecoder, operand: Edges) -> None:
        self._k, self.decoder, self._operand = k, decoder, operand
        self.size = decoder.positions * decoder.runs
        """Elements of a group."""

    def runs(
        self, line: Value, group: Value, position: Value, sixteenth: Index, width: int
    ) -> Runs:
        """Return `width` values from a position of a group, for each run of the group.

        Lines beyond the matrix are clamped; no stored result depends on them.
        """
        k, operand, decoder = self._k, self._operand, self.decoder
        row = k.minimum(operand.first + line, operand.extent - 1)
        block = row * (operand.depth // decoder.elements) + (group >> log2(decoder.groups))
        block_position = DecodePosition(
            block, group & (decoder.groups - 1), position, sixteenth, width
        )
        return [run.fused(k) for run in decoder.decode(k, operand.pointer, block_position)]


class _InstanceParts(_Rows):
    """The parts of a tile that one GPU instance dequantises in each step."""

    def __init__(
        self, k: Builder, decoder: BlockDecoder, operand: Edges, width: int, depth: int
    ) -> None:
        super().__init__(k, decoder, operand)
        self._step = depth // decoder.runs
        positions_per_instance = width * depth // (decoder.runs * k.workgroup_size)
        self.positions_at_once = max(1, min(decoder.width, self._step, positions_per_instance))
        """The number of positions that are decoded at a time."""
        parts_per_line = self._step // self.positions_at_once
        part_indices = [
            k.local_id() + start for start in range(0, width * parts_per_line, k.workgroup_size)
        ]
        # Eight adjacent lines are stored to different banks.
        self._positions_of_instance = [
            (
                part_index // (8 * parts_per_line) * 8 + part_index % 8,
                part_index // 8 % parts_per_line * self.positions_at_once,
            )
            for part_index in part_indices
        ]

    def dequantised(self, start: Value) -> Staged:
        """Return the values of the instance's parts, by runs, for the step from k = `start`.

        For a step beyond the end of K, these are values of the last group.
        """
        k, size = self._k, self.size
        group = k.minimum(start >> log2(size), self._operand.depth // size - 1)
        first_position, staged = start & (size - 1), []
        for line, offset in self._positions_of_instance:
            position = first_position + offset
            runs = self.runs(line, group, position, position >> 4, self.positions_at_once)
            staged.append(tuple(value for run in runs for value in run))
        return staged

    def positioned_runs(self, staged: Staged) -> Iterator[tuple[Value, Value, Sequence[Value]]]:
        """Yield the line, the first element in the step, and the adjacent values of each run."""
        for (line, position), values in zip(self._positions_of_instance, staged, strict=True):
            for run in range(self.decoder.runs):
                run_values = values[
                    run * self.positions_at_once : (run + 1) * self.positions_at_once
                ]
                yield line, position + run * self._step, run_values


class SharedBlocks(SharedTile):
    """A tile of f32 that all instances fill through registers."""

    def __init__(
        self, decoder: BlockDecoder, k: Builder, element: Type, operand: Edges, width: int,
        depth: int, vector: int, stages: int,
    ) -> None:  # fmt: skip
        SharedTileMemory.__init__(self, k, width, depth, stages, along=False)
        self._blocks = _InstanceParts(k, decoder, operand, width, depth)

    def read(self, start: Value) -> Staged:
        """Dequantise the instance's values of the tile that begins at k = `start`."""
        return self._blocks.dequantised(start)

    def write(self, staged: Staged, stage: Value) -> None:
        """Store the values in shared memory."""
        stage_offset = stage * self._size
        for line, first_element, values in self._blocks.positioned_runs(staged):
            for position, value in enumerate(values):
                self._buffer[stage_offset + (first_element + position) * self._pitch + line] = value


class BlockRing(Ring):
    """A ring of tiles of 16-bit elements, to which the dequantised values are rounded."""

    def __init__(self, decoder: BlockDecoder, *arguments: Any, is_first: bool) -> None:
        self._decoder = decoder
        super().__init__(*arguments, is_first=is_first)

    def _assign_copies(self, lanes: int) -> None:
        self._blocks = _InstanceParts(
            self._k, self._decoder, self._operand, self._width, self._depth
        )

    def copy(self, step: Value) -> None:
        """Dequantise a step of K into its stage."""
        k, stage = self._k, step % self._stages * self._size
        pack = k.pack_bf16 if self._element is bf16 else k.pack_f16
        staged = self._blocks.dequantised(self._operand.begin(step, self._depth))
        for line, first_element, values in self._blocks.positioned_runs(staged):
            for start in range(0, len(values), _MAX_VECTOR):
                group_values = values[start : start + _MAX_VECTOR]
                words = [
                    pack(*group_values[pair : pair + 2]) for pair in range(0, len(group_values), 2)
                ]
                element = first_element + start
                word_offset = self._swizzle(line, element // _MAX_VECTOR) * _WORDS
                offset_in_access = element % _MAX_VECTOR // (2 * len(words)) * len(words)
                k.store(
                    self._buffer,
                    stage + line * self._pitch + word_offset + offset_in_access,
                    *words,
                )


class CachedBlocks(CachedTile):
    """A tile of f32 for a CPU's cache; adjacent lanes dequantise adjacent positions."""

    def __init__(
        self, decoder: BlockDecoder, k: Builder, element: Type, operand: Edges, width: int,
        depth: int, panel: int, *, kept: bool,
    ) -> None:  # fmt: skip
        super().__init__(k, element, operand, width, depth, panel, kept=kept)
        self._rows = _Rows(k, decoder, operand)

    def fill(self, start: Value, count: Value) -> None:
        """Fill the tile with k = `start` to `start + count - 1`, a whole number of groups."""
        k, size, positions = self._k, self._rows.size, self._rows.decoder.positions
        lane, lanes = k.local_id(), k.workgroup_size
        with k.range(0, count // size) as groups, k.range(0, self._width) as lines:
            group, line = start // size + groups.index, lines.index
            line_offset = (
                line // self._panel * (self._panel * self._step_depth) + line % self._panel
            )
            target = k.pointer_add(self._buffer, groups.index * (size * self._panel) + line_offset)
            for first_position in range(0, positions, lanes):
                position = lane + first_position
                sixteenth = first_position // 16 if lanes <= 16 else position >> 4
                runs = self._rows.runs(line, group, position, sixteenth, 1)
                for run_index, run in enumerate(runs):
                    target[(position + run_index * positions) * self._panel] = run[0]
