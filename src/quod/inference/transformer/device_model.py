"""The integer program on a device: weights, cache and recordings of its launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import not_written
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.inference.transformer.kernels.arithmetic import Planes
from quod.inference.transformer.kernels.attention import attend, rotate, store_values
from quod.inference.transformer.kernels.product import Result, group_sums, product
from quod.inference.transformer.kernels.rows import activate, embed, normalise
from quod.inference.transformer.packed_matrix import PackedMatrix, packed_bytes, upload_matrix
from quod.inference.transformer.program import LayerSteps, NormStep, Product, Program
from quod.inference.transformer.reference import check_tokens
from quod.inference.transformer.rounding import Integers
from quod.inference.transformer.tables import Rotations, exponentials
from quod.kernel.machine import Capability
from quod.validation import whole_number

CHUNK = 64
"""The tokens of a prompt that are evaluated at once on a CPU, whose caches they should fit into."""
_GPU_CHUNK = 256
_TILE = 4
"""The tokens of a workgroup of products."""
_CAPACITY_STEP = 128
"""The positions of a cache are a multiple of this, so that workgroups may read whole vectors."""
_GPU_PARTS = 8
_ROWS_OF_GPU_WORKGROUP = 16
_GPU_ROW_LANES = 128

_UNWRITTEN_WORD = 0x80000000
_UNWRITTEN = -(1 << 63) + (1 << 31)
"""Two such words as a logit, which no sum reaches; see `quod.device.runtime.sentinel`."""

_ONE_PLANE, _TWO_PLANES = Planes(1, 16), Planes(2, 8)
_WIDE_PLANES, _WIDE_BYTE_PLANES = Planes(2, 12), Planes(3, 8)


@frozen(eq=False)
class _Product:
    """A product on a device; `bias` is None if there is none."""

    steps: Product
    matrix: PackedMatrix
    bias: Buffer | None


@frozen(eq=False)
class _Norm:
    steps: NormStep
    gains: Buffer
    bias: Buffer


@frozen(eq=False)
class _Layer:
    steps: LayerSteps
    attention_norm: _Norm
    feed_forward_norm: _Norm
    products: dict[str, _Product]
    table: Buffer
    keys: Buffer
    values: Buffer


@frozen(eq=False)
class _Inputs:
    """The inputs of products: words by plane, and the sums of groups by their size."""

    words: Buffer
    width: int
    tokens: int
    planes: Planes
    sums: dict[int, Buffer]


@frozen(eq=False)
class ChunkGraph:
    """The recorded evaluation of a chunk of tokens, such as for a browser.

    state: Four words, u32; the first is the position of the first token.
    tokens: The tokens, u32.
    logits: The logits of the last rows, i64.
    """

    recording: Recording
    state: Buffer
    tokens: Buffer
    logits: Buffer


class DeviceModel:
    """A model on a device with a cache of the positions so far; not for concurrent use."""

    def __init__(
        self, device: DeviceChoice, program: Program, *, context: int | None = None,
        chunk: int | None = None,
    ) -> None:  # fmt: skip
        """Upload a model.

        context: The number of positions that the cache holds; default: the model's context.
        chunk: The number of tokens that are evaluated at once; default: as suits the device.
        Raises DeviceError, before anything is uploaded, if memory does not suffice.
        """
        self.program = program
        self.device: AnyDevice = resolve_device(device)
        shape = program.model.architecture
        self.context = min(context or shape.context, shape.context)
        self._capacity = -(-self.context // _CAPACITY_STEP) * _CAPACITY_STEP
        default_chunk = self._choose_lanes()
        self._chunk = default_chunk if chunk is None else chunk
        self.device.check_budget(f"the model {program.model.path}", self._bytes())
        self._upload()
        self._positions = 0
        self._recordings: dict[tuple[int, int], Recording] = {}

    @property
    def positions(self) -> int:
        """The number of positions in the cache."""
        return self._positions

    def rewind(self, positions: int) -> None:
        """Forget all positions from a number on."""
        self._positions = min(self._positions, positions)

    def extend(self, tokens: Sequence[int] | NDArray[Any], *, rows: int = 1) -> Integers:
        """Append tokens to the cache; return the logits after the last `rows` of them, int64.

        Raises InputError for tokens beyond the vocabulary and positions beyond the context.
        """
        array = np.asarray(tokens, np.int64)
        check_tokens(self.program, array, self._positions, self.context)
        logits = []
        for start in range(0, len(array), self._chunk):
            chunk = array[start : start + self._chunk]
            wanted = min(len(chunk), max(0, rows - (len(array) - start - len(chunk))))
            logits.append(self._run(chunk, wanted))
        return np.concatenate(logits)

    def residual(self, tokens: int) -> Integers:
        """Return the residual stream of the last chunk of tokens, after all layers."""
        out = np.zeros((tokens, self.program.model.architecture.width), np.int32)
        self.device.download(self._x.slice(0, out.nbytes), out)
        return out.astype(np.int64)

    def graph(self, tokens: int, rows: int = 1) -> ChunkGraph:
        """Return a recording that appends a chunk of tokens, to be exported or replayed.

        Raises InputError for more tokens than a chunk has.
        """
        count = whole_number("tokens", tokens, 1, self._chunk)
        wanted = whole_number("rows", rows, 0, count)
        return ChunkGraph(
            self._record(count, wanted), self._state, self._tokens.slice(0, 4 * count),
            self._logits.slice(0, 8 * wanted * self.program.model.vocabulary),
        )  # fmt: skip

    def _choose_lanes(self) -> int:
        """Choose the sizes of workgroups; return the number of tokens that suits the device."""
        device, width = self.device, self.program.model.architecture.head_width
        if device.machine(16).has(Capability.VECTOR_LANES):
            # The widest vector with an instruction for pairs of 16-bit integers.
            self._lanes = next(
                (n for n in (16, 8) if device.machine(n).has(Capability.PAIR_PRODUCTS)), 4
            )
            self._parts, self._row_lanes = 1, self._lanes
            self._head_lanes = next(n for n in (self._lanes, 4, 2, 1) if width % n == 0)
            return CHUNK
        self._parts = _GPU_PARTS
        self._lanes, self._row_lanes = _ROWS_OF_GPU_WORKGROUP * _GPU_PARTS, _GPU_ROW_LANES
        self._head_lanes = next(n for n in (64, 32, 16, 8, 4, 2, 1) if width % n == 0)
        return _GPU_CHUNK

    def _bytes(self) -> int:
        shape, chunk = self.program.model.architecture, self._chunk
        matrices = {id(p.matrix): p.matrix for _, p in self.program.products()}
        matrices[id(self.program.model.embedding)] = self.program.model.embedding
        weights = sum([packed_bytes(matrix) for matrix in matrices.values()])
        cache = 4 * shape.layers * shape.kv_width * self._capacity
        scores = 12 * chunk * shape.heads * self._capacity
        widest = max(shape.hidden, shape.width, shape.query_width)
        rows = chunk * (8 * self.program.model.vocabulary + 40 * widest)
        tables = shape.layers * 4 * 65536 + 4 * self._capacity * shape.head_width
        return weights + cache + scores + rows + tables

    def _upload(self) -> None:
        program, upload = self.program, self.device.upload
        model, shape, chunk = program.model, program.model.architecture, self._chunk
        matrices: dict[int, PackedMatrix] = {}
        tables: dict[int, Buffer] = {}

        def matrix(source: Any) -> PackedMatrix:
            if id(source) not in matrices:
                matrices[id(source)] = upload_matrix(self.device, source)
            return matrices[id(source)]

        def uploaded(steps: Product) -> _Product:
            bias = None if steps.bias is None else upload(steps.bias)
            return _Product(steps, matrix(steps.matrix), bias)

        def norm(steps: NormStep) -> _Norm:
            return _Norm(steps, upload(steps.gains), upload(steps.bias))

        def layer(steps: LayerSteps) -> _Layer:
            if id(steps.table) not in tables:
                tables[id(steps.table)] = upload(steps.table)
            products = {name: uploaded(product) for name, product in steps.products()}
            keys, values = (
                self.device.allocate(2 * shape.kv_width * self._capacity) for _ in range(2)
            )
            return _Layer(
                steps, norm(steps.attention_norm), norm(steps.feed_forward_norm), products,
                tables[id(steps.table)], keys, values,
            )  # fmt: skip

        self._embedding = matrix(model.embedding)
        self._learned = None if model.positions is None else matrix(model.positions)
        self._layers = [layer(steps) for steps in program.layers]
        self._norm, self._head = norm(program.norm), uploaded(program.head)
        rotations = np.zeros((1, 1, 2), np.int32)
        if shape.family.rotary:
            rotations = Rotations(shape.rope_base, shape.head_width, model.rope_factors).table(
                self.context
            )
        self._rotations, self._exponentials = upload(rotations), upload(exponentials())
        self._unused = upload(np.zeros(4, np.int32))
        allocate = partial(self.device.allocate, zero=False)
        self._state, self._tokens = allocate(16), allocate(4 * chunk)
        self._x = allocate(4 * chunk * shape.width)
        wide = max(shape.hidden, shape.query_width)
        self._a, self._b, self._c = (allocate(4 * chunk * wide) for _ in range(3))
        self._queries = allocate(4 * chunk * shape.query_width)
        widest = max(shape.hidden, shape.width, shape.query_width)
        self._words = allocate(2 * _WIDE_BYTE_PLANES.count * chunk * widest)
        self._sums = {
            group: allocate(4 * _WIDE_BYTE_PLANES.count * chunk * -(-widest // group))
            for group in (16, 32)
        }
        self._scores = allocate(8 * chunk * shape.heads * self._capacity)
        self._weights = allocate(4 * chunk * shape.heads * self._capacity)
        self._logits = allocate(8 * chunk * model.vocabulary)

    def _run(self, tokens: Integers, rows: int) -> Integers:
        """Evaluate a chunk of tokens and return the logits of its last rows."""
        key = len(tokens), rows
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(*key)
        state = np.array([self._positions, 0, 0, 0], np.uint32)
        self.device.upload(state, into=self._state)
        count = tokens.astype(np.uint32)
        self.device.upload(count, into=self._tokens.slice(0, count.nbytes))
        self.device.stream("transformer").replay(recording).run()
        self._positions += len(tokens)
        logits = np.zeros((rows, self.program.model.vocabulary), np.int64)
        if rows:
            self.device.download(self._logits.slice(0, logits.nbytes), logits)
            if (logits == _UNWRITTEN).any():
                raise not_written(self.device, "the logits")
        return logits

    def _record(self, tokens: int, rows: int) -> Recording:
        recorder = _Recorder(self, self.device.stream("transformer").record(), tokens)
        recorder.embed()
        for layer in self._layers:
            recorder.attention(layer)
            recorder.feed_forward(layer)
        if rows:
            written = self._logits.slice(0, 8 * rows * self.program.model.vocabulary)
            recorder.head(rows, written)
        return recorder.finish()


class _Recorder:
    """Records the launches of the program for a number of tokens."""

    def __init__(self, model: DeviceModel, stream: RecordingStream, tokens: int) -> None:
        self._model, self._stream, self._count = model, stream, tokens
        self._shape = model.program.model.architecture

    def finish(self) -> Recording:
        """End the recording."""
        return self._stream.finish().recording

    def embed(self) -> None:
        """Record the embedding."""
        model, program = self._model, self._model.program
        self._embed(model._embedding, program.embedding_shift, positions=False)
        if model._learned is not None:
            self._embed(model._learned, program.position_shift, positions=True)

    def attention(self, layer: _Layer) -> None:
        """Record the attention of a layer and its addition to the residual stream."""
        model, shape, steps = self._model, self._shape, layer.steps
        products = layer.products
        names = ("query", "key", "value")
        planes = _planes([products[name].matrix for name in names])
        self._normalise(layer.attention_norm, planes)
        inputs = self._inputs(shape.width, planes, [products[name].matrix for name in names])
        for name, target in zip(names, (model._a, model._b, model._c), strict=True):
            self._product(products[name], inputs, target, Result.ROUND)
        for heads, source, target, keys in (
            (shape.heads, model._a, model._queries, False),
            (shape.kv_heads, model._b, layer.keys, True),
        ):
            count = self._count * heads * shape.head_width // 2
            self._each(
                rotate, count, (
                    count, heads, model._capacity, model._state, source, model._rotations, target,
                ),
                head_pairs=shape.head_width // 2, rotary=shape.family.rotary, keys=keys,
            )  # fmt: skip
        # The positions of the chunk touch this number of pairs, whether or not the first is even.
        count = (self._count // 2 + 1) * shape.kv_width
        self._each(
            store_values, count, (
                count, self._count, shape.kv_heads, model._capacity, model._state, model._c,
                layer.values,
            ),
            head_width=shape.head_width,
        )  # fmt: skip
        output = products["output"]
        planes = _planes([output.matrix])
        self._launch(
            attend, model._head_lanes, self._count * shape.heads, (
                self._count, model._capacity, steps.scores.multiplier, steps.scores.shift,
                steps.mix_shift, model._state, model._queries, layer.keys, layer.values,
                model._exponentials, model._scores, model._weights, model._words,
            ),
            heads=shape.heads, kv_heads=shape.kv_heads, head_width=shape.head_width, planes=planes,
        )  # fmt: skip
        inputs = self._inputs(shape.query_width, planes, [output.matrix])
        self._product(output, inputs, model._x, Result.ADD)

    def feed_forward(self, layer: _Layer) -> None:
        """Record the feed-forward network of a layer and its addition to the residual stream."""
        model, shape, products = self._model, self._shape, layer.products
        gate, up, down = products.get("gate"), products["up"], products["down"]
        matrices = [up.matrix] if gate is None else [gate.matrix, up.matrix]
        planes = _planes(matrices)
        self._normalise(layer.feed_forward_norm, planes)
        inputs = self._inputs(shape.width, planes, matrices)
        if gate is not None:
            self._product(gate, inputs, model._a, Result.ROUND)
        self._product(up, inputs, model._b, Result.ROUND)
        planes = _WIDE_BYTE_PLANES if down.matrix.bits == 16 else _WIDE_PLANES
        count = self._count * shape.hidden // 2
        self._each(
            activate, count, (
                count, layer.steps.hidden_shift, model._unused if gate is None else model._a,
                model._b, layer.table, model._words,
            ),
            gated=gate is not None, planes=planes,
        )  # fmt: skip
        inputs = self._inputs(shape.hidden, planes, [down.matrix])
        self._product(down, inputs, model._x, Result.ADD)

    def head(self, rows: int, target: Buffer) -> None:
        """Record the last norm and the logits of the last rows."""
        model, shape = self._model, self._shape
        planes = _planes([model._head.matrix])
        first, count = self._count - rows, self._count
        x = model._x.slice(4 * first * shape.width, 4 * count * shape.width)
        self._count = rows
        self._normalise(model._norm, planes, x)
        inputs = self._inputs(shape.width, planes, [model._head.matrix])
        self._stream.fill(target, _UNWRITTEN_WORD)
        self._product(model._head, inputs, target, Result.SUM)

    def _embed(self, matrix: PackedMatrix, shift: int, *, positions: bool) -> None:
        model = self._model
        count = self._count * matrix.columns
        self._each(
            embed, count, (
                count, matrix.columns, matrix.groups, shift, model.program.residual_limit,
                model._state, model._tokens, matrix.words, matrix.scales, matrix.minima, model._x,
            ),
            bits=matrix.bits, group=matrix.group, positions=positions,
        )  # fmt: skip

    def _normalise(self, norm: _Norm, planes: Planes, x: Buffer | None = None) -> None:
        model, steps = self._model, norm.steps
        self._launch(
            normalise, model._row_lanes, self._count, (
                self._shape.width, self._count, steps.shift, steps.epsilon,
                model._x if x is None else x, norm.gains, norm.bias, model._words,
            ),
            centred=steps.centred, planes=planes,
        )  # fmt: skip

    def _inputs(self, width: int, planes: Planes, matrices: Iterable[PackedMatrix]) -> _Inputs:
        """Record the sums of groups that the minima of matrices need."""
        model, sums = self._model, {}
        for group in {matrix.group for matrix in matrices if matrix.bits < 16}:
            count = planes.count * self._count * width // group
            sums[group] = model._sums[group]
            self._each(group_sums, count, (count, model._words, sums[group]), group=group)
        return _Inputs(model._words, width, self._count, planes, sums)

    def _product(self, linear: _Product, inputs: _Inputs, target: Buffer, result: Result) -> None:
        model, matrix, steps = self._model, linear.matrix, linear.steps
        tile = min(_TILE, self._count)
        rows = model._lanes // model._parts
        groups = -(-matrix.rows // rows) * -(-self._count // tile)
        self._launch(
            product, model._lanes, groups, (
                matrix.rows, self._count, matrix.groups, steps.shift or 0, steps.limit,
                matrix.words, matrix.scales, matrix.minima, linear.bias or model._unused,
                inputs.words, inputs.sums.get(matrix.group, model._unused), target,
            ),
            bits=matrix.bits, group=matrix.group, planes=inputs.planes, tile=tile,
            parts=model._parts, result=result, has_bias=linear.bias is not None,
        )  # fmt: skip

    def _each(self, definition: Any, count: int, arguments: tuple[Any, ...], **static: Any) -> None:
        lanes = self._model._row_lanes
        self._launch(definition, lanes, -(-count // lanes), arguments, **static)

    def _launch(
        self, definition: Any, lanes: int, groups: int, arguments: tuple[Any, ...], **static: Any
    ) -> None:
        kernel = self._model.device.compile(definition, lanes=lanes, **static)
        self._stream.launch(kernel, groups, *arguments)


def _planes(matrices: Sequence[PackedMatrix]) -> Planes:
    """Return the planes of 16-bit inputs of products with matrices."""
    return _TWO_PLANES if any(matrix.bits == 16 for matrix in matrices) else _ONE_PLANE
