"""The launches of the integer program for a chunk of tokens, as a recording."""

from __future__ import annotations

from collections.abc import Sequence
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
    Values,
    Weights,
)
from quod.inference.transformer.device.packed_matrix import PackedMatrix
from quod.inference.transformer.device.workgroups import Workgroups
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.kernels.attention import attend, rotate, store_values
from quod.inference.transformer.kernels.product import Result, group_sums, product
from quod.inference.transformer.kernels.rows import activate, embed, normalise
from quod.inference.transformer.program import Program
from quod.kernel import KernelDefinition

UNWRITTEN_WORD = 0x80000000
"""Logits consist of such words before they are computed."""
_TILE = 4
"""The tokens of a workgroup of products; more do not fit into the vector registers of CPUs."""


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
        products = [layer.products[name] for name in ("query", "key", "value")]
        inputs = self._normalised(layer.attention_norm, [linear.matrix for linear in products])
        for linear, target in zip(products, values.products, strict=True):
            self._product(linear, inputs, target, Result.ROUND)
        queries, keys, value_sums = values.products
        self._rotate(shape.heads, queries, values.queries, keys=False)
        self._rotate(shape.kv_heads, keys, layer.keys, keys=True)
        count = self._count * shape.kv_width
        self._each(
            store_values, count, (
                count, self._count, shape.kv_heads, self._capacity, values.state, value_sums,
                layer.values,
            ),
            head_width=shape.head_width,
        )  # fmt: skip
        output = layer.products["output"]
        planes = _planes([output.matrix])
        self._launch(
            attend, self._workgroups.head, self._count * shape.heads, (
                self._count, self._capacity, steps.scores.multiplier, steps.scores.shift,
                steps.mix_shift, values.state, values.queries, layer.keys, layer.values,
                self._weights.exponentials, values.scores, values.weights, values.words,
            ),
            heads=shape.heads, kv_heads=shape.kv_heads, head_width=shape.head_width, planes=planes,
        )  # fmt: skip
        inputs = self._inputs(shape.query_width, planes, [output.matrix])
        self._product(output, inputs, values.x, Result.ADD)

    def _rotate(self, heads: int, source: Buffer, target: Buffer, *, keys: bool) -> None:
        pairs = self._shape.head_width // 2
        count = self._count * heads * pairs
        self._each(
            rotate, count, (
                count, heads, self._capacity, self._values.state, source, self._weights.rotations,
                target,
            ),
            head_pairs=pairs, rotary=self._shape.family.rotary, keys=keys,
        )  # fmt: skip

    def _feed_forward(self, layer: DeviceLayer) -> None:
        """Record the feed-forward network of a layer and its addition to the residual stream."""
        values, shape, products = self._values, self._shape, layer.products
        gate, up, down = products.get("gate"), products["up"], products["down"]
        linears = [up] if gate is None else [gate, up]
        inputs = self._normalised(layer.feed_forward_norm, [linear.matrix for linear in linears])
        gate_sums, up_sums, _ = values.products
        if gate is not None:
            self._product(gate, inputs, gate_sums, Result.ROUND)
        self._product(up, inputs, up_sums, Result.ROUND)
        planes = WIDE_BYTE_PLANES if down.matrix.bits == 16 else WIDE_PLANES
        count = self._count * shape.hidden // 2
        self._each(
            activate, count, (
                count, layer.steps.hidden_shift, values.unused if gate is None else gate_sums,
                up_sums, layer.table, values.words,
            ),
            gated=gate is not None, planes=planes,
        )  # fmt: skip
        inputs = self._inputs(shape.hidden, planes, [down.matrix])
        self._product(down, inputs, values.x, Result.ADD)

    def _head(self, rows: int) -> None:
        """Record the last norm and the logits of the last rows."""
        values, head, row_bytes = self._values, self._weights.head, 4 * self._shape.width
        x = values.x.slice((self._count - rows) * row_bytes, self._count * row_bytes)
        logits = values.logits.slice(0, 8 * rows * self._program.model.vocabulary)
        self._count = rows
        inputs = self._normalised(self._weights.norm, [head.matrix], x)
        self._stream.fill(logits, UNWRITTEN_WORD)
        self._product(head, inputs, logits, Result.SUM)

    def _normalised(
        self, norm: DeviceNorm, matrices: Sequence[PackedMatrix], x: Buffer | None = None
    ) -> _Inputs:
        """Record a norm of the residual stream, or of `x`, as the inputs of matrices."""
        values, steps, planes = self._values, norm.steps, _planes(matrices)
        self._launch(
            normalise, self._workgroups.rows, self._count, (
                self._shape.width, self._count, steps.shift, steps.epsilon,
                values.x if x is None else x, norm.gains, norm.bias, values.words,
            ),
            centred=steps.centred, planes=planes,
        )  # fmt: skip
        return self._inputs(self._shape.width, planes, matrices)

    def _inputs(self, width: int, planes: Planes, matrices: Sequence[PackedMatrix]) -> _Inputs:
        """Record the sums of groups that the minima of matrices need."""
        values, sums = self._values, {}
        for group in {matrix.group for matrix in matrices if matrix.bits < 16}:
            count = planes.count * self._count * width // group
            sums[group] = values.sums[group]
            self._each(group_sums, count, (count, values.words, sums[group]), group=group)
        return _Inputs(planes, sums)

    def _product(
        self, linear: DeviceProduct, inputs: _Inputs, target: Buffer, result: Result
    ) -> None:
        values, matrix, steps = self._values, linear.matrix, linear.steps
        tile = min(_TILE, self._count)
        rows = self._workgroups.product // self._workgroups.parts
        groups = -(-matrix.rows // rows) * -(-self._count // tile)
        self._launch(
            product, self._workgroups.product, groups, (
                matrix.rows, self._count, matrix.groups, steps.shift or 0, steps.limit,
                matrix.words, matrix.scales, matrix.minima, linear.bias or values.unused,
                values.words, inputs.sums.get(matrix.group, values.unused), target,
            ),
            bits=matrix.bits, group=matrix.group, planes=inputs.planes, tile=tile,
            parts=self._workgroups.parts, result=result, has_bias=linear.bias is not None,
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


def _planes(matrices: Sequence[PackedMatrix]) -> Planes:
    """Return the planes of 16-bit inputs of products with matrices."""
    return TWO_PLANES if any(matrix.bits == 16 for matrix in matrices) else ONE_PLANE
