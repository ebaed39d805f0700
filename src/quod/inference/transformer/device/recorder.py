"""The launches of the integer program for a chunk of tokens, as a recording."""

from __future__ import annotations

from typing import Any

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.frozen import frozen
from quod.inference.transformer.device.memory import (
    ONE_PLANE,
    TWO_PLANES,
    WIDE_BYTE_PLANES,
    WIDE_PLANES,
    DeviceLayer,
    DeviceNorm,
    DeviceProduct,
    Stack,
    Values,
    Weights,
)
from quod.inference.transformer.device.packed_matrix import PackedMatrix
from quod.inference.transformer.device.workgroups import Workgroups
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.kernels.attention import attend, rotate_and_store
from quod.inference.transformer.kernels.product import Result, group_sums, product
from quod.inference.transformer.kernels.rows import activate, embed, normalise
from quod.inference.transformer.program import Program
from quod.kernel import KernelDefinition

UNWRITTEN_WORD = 0x80000000
"""Logits consist of such words before they are computed."""


@frozen(eq=False)
class _Inputs:
    """The inputs of products: their planes, and the sums of groups by the size of a group."""

    planes: Planes
    sums: dict[int, Buffer]


class Recorder:
    """Records the launches of the program for a number of tokens."""

    def __init__(
        self, device: AnyDevice, program: Program, weights: Weights, values: Values, capacity: int,
        workgroups: Workgroups, tokens: int,
    ) -> None:  # fmt: skip
        """Start a recording; `capacity` is the number of positions that the cache has room for."""
        self._device, self._program = device, program
        self._weights, self._values = weights, values
        self._capacity, self._workgroups, self._count = capacity, workgroups, tokens
        self._shape = program.model.architecture
        self._stream = device.stream("transformer").record()

    def record(self, rows: int) -> Recording:
        """Record a whole pass, with the logits of the last `rows` tokens."""
        weights, program = self._weights, self._program
        self._embed(weights.embedding, program.embedding_shift, positions=False)
        if weights.positions is not None:
            self._embed(weights.positions, program.position_shift, positions=True)
        for layer in weights.layers:
            self._attention(layer)
            self._feed_forward(layer)
        if rows:
            self._head(rows)
        return self._stream.finish().recording

    def _embed(self, matrix: PackedMatrix, shift: int, *, positions: bool) -> None:
        values, count = self._values, self._count * matrix.columns
        self._each(
            embed, count, (
                count, matrix.columns, matrix.groups, shift, self._program.residual_limit,
                values.state, values.tokens, matrix.words, matrix.scales, matrix.minima, values.x,
            ),
            bits=matrix.bits, group=matrix.group, positions=positions,
        )  # fmt: skip

    def _attention(self, layer: DeviceLayer) -> None:
        """Record the attention of a layer and its addition to the residual stream."""
        values, shape, steps = self._values, self._shape, layer.steps
        projections, output, pairs = layer.projections, layer.output, shape.head_width // 2
        inputs = self._normalised(layer.attention_norm, projections)
        self._products(projections, inputs, values.products, Result.ROUND)
        _, first_key, first_value = projections.firsts
        count = self._count * (shape.heads + 2 * shape.kv_heads) * pairs
        self._each(
            rotate_and_store, count, (
                count, self._count, self._capacity, projections.width, first_key, first_value,
                values.state, values.products, self._weights.rotations, values.queries, layer.keys,
                layer.values,
            ),
            heads=shape.heads, kv_heads=shape.kv_heads, head_pairs=pairs,
            rotary=shape.family.rotary,
        )  # fmt: skip
        planes, tile = _planes(output), self._workgroups.head_tile
        self._launch(
            attend, self._workgroups.head, -(-self._count // tile) * shape.heads, (
                self._count, self._capacity, steps.scores.multiplier, steps.scores.shift,
                steps.mix_shift, values.state, values.queries, layer.keys, layer.values,
                self._weights.exponentials, values.scores, values.weights, values.words,
            ),
            heads=shape.heads, kv_heads=shape.kv_heads, head_width=shape.head_width, planes=planes,
            tile=tile,
        )  # fmt: skip
        inputs = self._inputs(shape.query_width, planes, output)
        self._products(output, inputs, values.x, Result.ADD)

    def _feed_forward(self, layer: DeviceLayer) -> None:
        """Record the feed-forward network of a layer and its addition to the residual stream."""
        values, shape, feeds, down = self._values, self._shape, layer.feeds, layer.down
        inputs = self._normalised(layer.feed_forward_norm, feeds)
        self._products(feeds, inputs, values.products, Result.ROUND)
        has_bytes = down.matrices[0].bits < 16
        planes = WIDE_PLANES if has_bytes else WIDE_BYTE_PLANES
        pairs = shape.hidden // 2
        self._each(
            activate, self._count * pairs, (
                self._count * pairs, pairs, feeds.width, feeds.firsts[-1], layer.steps.hidden_shift,
                values.products, layer.table, values.words,
            ),
            gated=layer.steps.gate is not None, planes=planes,
        )  # fmt: skip
        inputs = self._inputs(shape.hidden, planes, down)
        self._products(down, inputs, values.x, Result.ADD)

    def _head(self, rows: int) -> None:
        """Record the last norm and the logits of the last rows."""
        values, head, row_bytes = self._values, self._weights.head, 4 * self._shape.width
        x = values.x.slice((self._count - rows) * row_bytes, self._count * row_bytes)
        logits = values.logits.slice(0, 8 * rows * self._program.model.vocabulary)
        self._count = rows
        inputs = self._normalised(self._weights.norm, head, x)
        self._stream.fill(logits, UNWRITTEN_WORD)
        self._products(head, inputs, logits, Result.SUM)

    def _normalised(self, norm: DeviceNorm, stack: Stack, x: Buffer | None = None) -> _Inputs:
        """Record a norm of the residual stream, or of `x`, as the inputs of a stack."""
        values, steps, planes = self._values, norm.steps, _planes(stack)
        self._launch(
            normalise, self._workgroups.rows, self._count, (
                self._shape.width, self._count, steps.shift, steps.epsilon,
                values.x if x is None else x, norm.gains, norm.bias, values.words,
            ),
            centred=steps.centred, planes=planes,
        )  # fmt: skip
        return self._inputs(self._shape.width, planes, stack)

    def _inputs(self, width: int, planes: Planes, stack: Stack) -> _Inputs:
        """Record the sums of groups that the minima of a stack need."""
        values, sums = self._values, dict[int, Buffer]()
        if not self._workgroups.sums:
            return _Inputs(planes, sums)
        for group in {matrix.group for matrix in stack.matrices if matrix.bits < 16}:
            count = planes.count * self._count * width // group
            sums[group] = values.sums[group]
            self._each(group_sums, count, (count, values.words, sums[group]), group=group)
        return _Inputs(planes, sums)

    def _products(self, stack: Stack, inputs: _Inputs, target: Buffer, result: Result) -> None:
        for linear in stack.products:
            self._product(linear, stack.width, inputs, target, result)

    def _product(
        self, linear: DeviceProduct, stride: int, inputs: _Inputs, target: Buffer, result: Result
    ) -> None:
        values, matrix, sizes = self._values, linear.matrix, self._workgroups
        groups = -(-matrix.rows // (sizes.product // sizes.parts)) * -(-self._count // sizes.tile)
        self._launch(
            product, sizes.product, groups, (
                matrix.rows, stride, linear.first, self._count, matrix.groups, linear.limit,
                linear.shifts, matrix.words, matrix.scales, matrix.minima,
                linear.bias or values.unused, values.words,
                inputs.sums.get(matrix.group, values.unused), target,
            ),
            bits=matrix.bits, group=matrix.group, planes=inputs.planes, tile=sizes.tile,
            parts=sizes.parts, result=result, has_bias=linear.bias is not None,
            has_sums=sizes.sums,
        )  # fmt: skip

    def _each(
        self, definition: KernelDefinition, count: int, arguments: tuple[Any, ...], **static: Any
    ) -> None:
        """Record a kernel with an instance for each of `count` elements."""
        lanes = self._workgroups.rows
        self._launch(definition, lanes, -(-count // lanes), arguments, **static)

    def _launch(
        self, definition: KernelDefinition, lanes: int, groups: int, arguments: tuple[Any, ...],
        **static: Any,
    ) -> None:  # fmt: skip
        kernel = self._device.compile(definition, lanes=lanes, **static)
        self._stream.launch(kernel, groups, *arguments)


def _planes(stack: Stack) -> Planes:
    """Return the planes of 16-bit inputs of a stack."""
    return TWO_PLANES if any(matrix.bits == 16 for matrix in stack.matrices) else ONE_PLANE
