"""The memory of a model on a device: weights, tables, cache and the values of a chunk."""

from __future__ import annotations

from functools import partial

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.inference.transformer.device.packed_matrix import (
    PackedMatrix,
    packed_bytes,
    upload_matrix,
)
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.program import LayerSteps, NormStep, Product, Program
from quod.inference.transformer.tables import Rotations, exponentials

ONE_PLANE, TWO_PLANES = Planes(1, 16), Planes(2, 8)
"""The planes of 16-bit inputs of products with quants of 4 and 8 bits, and of 16 bits."""
WIDE_PLANES, WIDE_BYTE_PLANES = Planes(2, 12), Planes(3, 8)
"""The planes of 24-bit inputs of such products."""
_MOST_PLANES = WIDE_BYTE_PLANES.count
_CAPACITY_STEP = 128
"""The positions of a cache are a multiple of this, so that workgroups may read whole vectors."""


@frozen
class Sizes:
    """The number of positions of the cache, of sequences in it, and of tokens of a chunk."""

    context: int
    sequences: int
    chunk: int

    @property
    def capacity(self) -> int:
        """The number of positions that the cache has memory for."""
        return -(-self.context // _CAPACITY_STEP) * _CAPACITY_STEP


@frozen(eq=False)
class DeviceProduct:
    """A product on a device; `bias` is None if there is none."""

    steps: Product
    matrix: PackedMatrix
    bias: Buffer | None


@frozen(eq=False)
class DeviceNorm:
    """A norm on a device."""

    steps: NormStep
    gains: Buffer
    bias: Buffer


@frozen(eq=False)
class DeviceLayer:
    """A layer on a device, with its part of the cache."""

    steps: LayerSteps
    attention_norm: DeviceNorm
    feed_forward_norm: DeviceNorm
    products: dict[str, DeviceProduct]
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
    head: DeviceProduct
    rotations: Buffer
    exponentials: Buffer


@frozen(eq=False)
class Values:
    """The values of a chunk.

    state: The position and the sequence of each token.
    tokens: The tokens.
    x: The residual stream.
    products: Three buffers for rounded sums.
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
    products: tuple[Buffer, Buffer, Buffer]
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
            matrices[id(source)] = upload_matrix(device, source)
        return matrices[id(source)]

    def product(steps: Product) -> DeviceProduct:
        bias = None if steps.bias is None else upload(steps.bias)
        return DeviceProduct(steps, matrix(steps.matrix), bias)

    def norm(steps: NormStep) -> DeviceNorm:
        return DeviceNorm(steps, upload(steps.gains), upload(steps.bias))

    def layer(steps: LayerSteps) -> DeviceLayer:
        if id(steps.table) not in tables:
            tables[id(steps.table)] = upload(steps.table)
        cache_bytes = 2 * shape.kv_width * sizes.capacity * sizes.sequences
        keys, values = device.allocate(cache_bytes), device.allocate(cache_bytes)
        return DeviceLayer(
            steps, norm(steps.attention_norm), norm(steps.feed_forward_norm),
            {name: product(linear) for name, linear in steps.products()},
            tables[id(steps.table)], keys, values,
        )  # fmt: skip

    rotations = np.zeros((1, 1, 2), np.int32)
    if shape.family.rotary:
        table = Rotations(shape.rope_base, shape.head_width, model.rope_factors)
        rotations = table.table(sizes.context)
    return Weights(
        matrix(model.embedding), None if model.positions is None else matrix(model.positions),
        [layer(steps) for steps in program.layers], norm(program.norm), product(program.head),
        upload(rotations), upload(exponentials()),
    )  # fmt: skip


def allocate_values(device: AnyDevice, program: Program, sizes: Sizes) -> Values:
    """Allocate the memory for the values of a chunk."""
    allocate, chunk = partial(device.allocate, zero=False), sizes.chunk
    shape = program.model.architecture
    wide = max(shape.hidden, shape.query_width)
    widest = max(wide, shape.width)
    return Values(
        state=allocate(8 * chunk),
        tokens=allocate(4 * chunk),
        x=allocate(4 * chunk * shape.width),
        products=(
            allocate(4 * chunk * wide), allocate(4 * chunk * wide), allocate(4 * chunk * wide),
        ),
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
