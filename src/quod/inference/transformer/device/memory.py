"""The memory of a model on a device: weights, tables, cache and the values of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.inference.transformer.device.packed_matrix import (
    PackedMatrix,
    packed_bytes,
    padded,
    upload_matrices,
)
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.kernels.product import ROW_BLOCK
from quod.inference.transformer.program import LayerSteps, NormStep, Product, Program
from quod.inference.transformer.tables import Rotations, exponentials

ONE_PLANE, TWO_PLANES = Planes(1, 16), Planes(2, 8)
"""The planes of 16-bit inputs of products with quants of 4 and 8 bits, and of 16 bits."""
WIDE_PLANES, WIDE_BYTE_PLANES = Planes(2, 12), Planes(3, 8)
"""The planes of 24-bit inputs of such products."""
_MOST_PLANES = WIDE_BYTE_PLANES.count


@frozen
class Sizes:
    """The sizes of a cache and of a chunk.

    context: The number of positions that a sequence may have.
    capacity: The number of positions that a sequence has memory for; see `capacity_of`.
    sequences: The number of sequences of the cache.
    chunk: The number of tokens of a chunk.
    """

    context: int
    capacity: int
    sequences: int
    chunk: int


@frozen(eq=False)
class DeviceProduct:
    """A product on a device, with several matrices if their layouts are the same.

    first: The first of its results of a token among those of a `Stack`.
    limit: The results saturate at -limit and limit.
    shifts: The shift of each block of rows, u32.
    bias: None if there is none.
    """

    matrix: PackedMatrix
    first: int
    limit: int
    shifts: Buffer
    bias: Buffer | None


@frozen(eq=False)
class Stack:
    """Products of the same inputs.

    width: The number of results of a token, with padding between matrices.
    firsts: The first result of a token of each matrix.
    """

    products: tuple[DeviceProduct, ...]
    width: int
    firsts: tuple[int, ...]

    @property
    def matrices(self) -> list[PackedMatrix]:
        """The matrices of the products."""
        return [product.matrix for product in self.products]


@frozen(eq=False)
class DeviceNorm:
    """A norm on a device."""

    steps: NormStep
    gains: Buffer
    bias: Buffer


@frozen(eq=False)
class DeviceLayer:
    """A layer on a device, with its part of the cache.

    projections: The products for query, key and value.
    feeds: The products for the gate, if there is one, and `up`.
    """

    steps: LayerSteps
    attention_norm: DeviceNorm
    projections: Stack
    output: Stack
    feed_forward_norm: DeviceNorm
    feeds: Stack
    down: Stack
    table: Buffer
    keys: Buffer
    values: Buffer


@frozen(eq=False)
class Weights:
    """The weights, tables and cache.

    positions: The learned positions; None if positions rotate.
    """

    embedding: PackedMatrix
    positions: PackedMatrix | None
    layers: list[DeviceLayer]
    norm: DeviceNorm
    head: Stack
    rotations: Buffer
    exponentials: Buffer


@frozen(eq=False)
class Values:
    """The values of a chunk.

    state: The position and the sequence of each token.
    tokens: The tokens.
    x: The residual stream.
    products: The rounded sums of a stack.
    queries: The packed queries.
    words: The packed inputs of products.
    sums: The sums of groups of inputs, by the size of a group.
    scores, weights: See the kernel `attend`.
    logits: The logits.
    unused: Stands for arguments that a kernel does not use.
    """

    state: Buffer
    tokens: Buffer
    x: Buffer
    products: Buffer
    queries: Buffer
    words: Buffer
    sums: dict[int, Buffer]
    scores: Buffer
    weights: Buffer
    logits: Buffer
    unused: Buffer


def memory_bytes(program: Program, sizes: Sizes) -> int:
    """Return the bytes that `upload_weights` and `allocate_values` take, within some per cent."""
    model, shape = program.model, program.model.architecture
    matrices = [model.embedding, *[product.matrix for _, product in program.products()]]
    if model.positions is not None:
        matrices.append(model.positions)
    weights = sum([packed_bytes(m) for m in {id(m): m for m in matrices}.values()])
    cache = 4 * shape.layers * shape.kv_width * sizes.capacity * sizes.sequences
    scores = 12 * sizes.chunk * shape.heads * sizes.capacity
    widest = max(shape.hidden, shape.width, shape.query_width)
    rows = sizes.chunk * (8 * model.vocabulary + 40 * widest)
    tables = shape.layers * 4 * 65536 + 4 * sizes.capacity * shape.head_width
    return weights + cache + scores + rows + tables


def upload_weights(device: AnyDevice, program: Program, sizes: Sizes) -> Weights:
    """Upload the weights and tables of a program; matrices and tables that are shared, once."""
    upload, model, shape = device.upload, program.model, program.model.architecture
    matrices: dict[int, PackedMatrix] = {}
    tables: dict[int, Buffer] = {}

    def matrix(source: IntegerMatrix) -> PackedMatrix:
        if id(source) not in matrices:
            matrices[id(source)] = upload_matrices(device, [source])
        return matrices[id(source)]

    def norm(steps: NormStep) -> DeviceNorm:
        return DeviceNorm(steps, upload(steps.gains), upload(steps.bias))

    def layer(steps: LayerSteps) -> DeviceLayer:
        if id(steps.table) not in tables:
            tables[id(steps.table)] = upload(steps.table)
        cache_bytes = 2 * shape.kv_width * sizes.capacity * sizes.sequences
        keys, values = device.allocate(cache_bytes), device.allocate(cache_bytes)
        return DeviceLayer(
            steps, norm(steps.attention_norm),
            _stack(device, [steps.query, steps.key, steps.value]), _stack(device, [steps.output]),
            norm(steps.feed_forward_norm),
            _stack(device, [steps.up] if steps.gate is None else [steps.gate, steps.up]),
            _stack(device, [steps.down]), tables[id(steps.table)], keys, values,
        )  # fmt: skip

    rotations = np.zeros((1, 1, 2), np.int32)
    if shape.family.rotary:
        table = Rotations(shape.rope_base, shape.head_width, model.rope_factors)
        rotations = table.table(sizes.context)
    return Weights(
        matrix(model.embedding), None if model.positions is None else matrix(model.positions),
        [layer(steps) for steps in program.layers], norm(program.norm),
        _stack(device, [program.head], matrix(program.head.matrix)),
        upload(rotations), upload(exponentials()),
    )  # fmt: skip


def _stack(
    device: AnyDevice, products: Sequence[Product], packed: PackedMatrix | None = None
) -> Stack:  # fmt: skip
    """Upload products of the same inputs; neighbours of the same layout become one.

    packed: The matrix of the only product, if it was uploaded before.
    """
    stacked, firsts, width = list[DeviceProduct](), list[int](), 0
    for (_, _, limit), group in groupby(products, _layout):
        members = list(group)
        starts = np.cumsum([0, *[padded(member.matrix.rows) for member in members]]).tolist()
        shifts = np.zeros(starts[-1] // ROW_BLOCK, np.uint32)
        bias = np.zeros(starts[-1], np.int64)
        for member, start in zip(members, starts, strict=False):
            shifts[start // ROW_BLOCK :] = member.shift or 0
            if member.bias is not None:
                bias[start : start + len(member.bias)] = member.bias
        has_bias = any(member.bias is not None for member in members)
        matrix = packed or upload_matrices(device, [member.matrix for member in members])
        stacked.append(
            DeviceProduct(
                matrix,
                width,
                limit,
                device.upload(shifts),
                device.upload(bias) if has_bias else None,
            )
        )
        firsts += [width + start for start in starts[:-1]]
        last = width + starts[-2] + members[-1].matrix.rows
        width += starts[-1]
    return Stack(tuple(stacked), last, tuple(firsts))


def _layout(product: Product) -> tuple[int, int, int]:
    """Return what products must share to be computed as one."""
    return product.matrix.bits, product.matrix.group, product.limit


def allocate_values(device: AnyDevice, program: Program, sizes: Sizes) -> Values:
    """Allocate the memory for the values of a chunk."""
    allocate, chunk = partial(device.allocate, zero=False), sizes.chunk
    shape = program.model.architecture
    wide = max(shape.hidden, shape.query_width)
    widest = max(wide, shape.width)
    stacked = max(
        padded(shape.query_width) + 2 * padded(shape.kv_width), 2 * padded(shape.hidden)
    )  # fmt: skip
    return Values(
        state=allocate(8 * chunk),
        tokens=allocate(4 * chunk),
        x=allocate(4 * chunk * shape.width),
        products=allocate(4 * chunk * stacked),
        queries=allocate(4 * chunk * shape.query_width),
        words=allocate(2 * _MOST_PLANES * chunk * widest),
        sums={
            group: allocate(4 * _MOST_PLANES * chunk * -(-widest // group)) for group in (16, 32)
        },
        scores=allocate(8 * chunk * shape.heads * sizes.capacity),
        weights=allocate(4 * chunk * shape.heads * sizes.capacity),
        logits=allocate(8 * chunk * program.model.vocabulary),
        unused=device.upload(np.zeros(4, np.int32)),
    )  # fmt: skip
