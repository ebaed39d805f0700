"""A·w and B·w on a GPU: a sparse matrix in a layout for which a warp's reads coalesce.

The entries are those of `quod.groth16.host.sparse_matrix`. Their values are multiplied by R**2, so
one Montgomery product per entry gives a result in Montgomery form. A row of more than `PIECE`
entries is split into pieces, whose sums a second kernel adds, one workgroup per row. Pieces are
sorted by length and grouped in bundles of `BUNDLE`, one lane per piece. The j-th entries of a
bundle's pieces are adjacent in memory, so that neighbouring lanes read neighbouring values (sliced
ELLPACK with a sorting window over all rows: Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci.
Comput. 36, 2014). A row without entries is an empty piece, whose sum is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, check_written
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.array import Words
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.groth16.host.sparse_matrix import (
    HEAD_WORDS,
    Coefficients,
    RowEntries,
    SparseMatrix,
    gathered,
)
from quod.kernel import U32, U64, Builder, Pointer, Struct, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

BUNDLE = 32
"""The number of pieces with interleaved entries: the lanes of a warp."""

PIECE = 128
"""The largest number of entries that one lane adds."""

Array = NDArray[Any]


class PieceTable(Struct):
    """Pieces of rows, and their entries.

    The sum of piece i goes to element targets[i]. The piece has lengths[i] entries, in the bundle
    whose first entry is bundles[i // BUNDLE]. Entry e multiplies element indices[e] of the vector
    by values[e].
    """

    targets: Pointer[U32]
    lengths: Pointer[U32]
    bundles: Pointer[U64]
    indices: Pointer[U32]
    values: Pointer[U64]


def entry_place(k: Builder, piece: Value, start: Value, j: Value) -> Value:
    """Return the index of entry j of a piece; `start` is the first entry of the piece's bundle."""
    return start + (piece % BUNDLE).cast(types.u64) + j.cast(types.u64) * BUNDLE


@kernel
def lay_out_rows(
    k: Builder,
    pieces: U32,
    first: Pointer[U32],
    lengths: Pointer[U32],
    bundles: Pointer[U64],
    entries: Pointer[U32],
    indices: Pointer[U32],
    values: Pointer[U32],
    *,
    words: int,
    index: int,
) -> None:
    """Copy entries from the layout of a zkey's matrices to that of `PieceTable`.

    pieces: the number of pieces. Piece i has lengths[i] entries from entry first[i]; the first
        entry of its bundle is bundles[i // BUNDLE].
    words: 32-bit words of a value.
    index: the word of an entry that has the index of its factor.
    """
    piece = k.global_id()
    with k.if_(piece < pieces):
        bundle_start, first_entry = bundles[piece // BUNDLE], first[piece].cast(types.u64)
        with k.range(0, lengths[piece]) as loop:
            source = (first_entry + loop.index.cast(types.u64)) * (HEAD_WORDS + words)
            target = entry_place(k, piece, bundle_start, loop.index)
            indices[target] = entries[source + index]
            k.store(values, target * words, *k.load(entries, source + HEAD_WORDS, words))


@kernel
def multiply_pieces(
    k: Builder,
    pieces: U32,
    table: PieceTable,
    vector: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """out[targets[i]] = the sum of value * vector[index] over the entries of piece i.

    Values are stored as value * R**2, the vector is canonical, the sums are in Montgomery form.
    """
    f = prime_field(k, modulus)
    piece = k.global_id()
    with k.if_(piece < pieces):
        bundle_start = table.bundles[piece // BUNDLE]
        with k.range(0, table.lengths[piece], carry=f.loop_zero()) as loop:
            entry = entry_place(k, piece, bundle_start, loop.index)
            factor = f.load(vector, table.indices[entry], linear=True)
            loop.next(f.bounded(loop.carried + f.load(table.values, entry) * factor))
        f.store(out, table.targets[piece], loop.results)


@kernel
def multiply_pieces_by_each(
    k: Builder,
    pieces: U32,
    width: U32,
    vectors: U32,
    stride: U32,
    part: U32,
    table: PieceTable,
    vector: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Multiply as `multiply_pieces`, by each of `vectors` vectors `stride` elements apart.

    width: lanes per vector, at least the number of pieces.
    part: elements per chunk of the interleaved results; see `interleaved_index`.
    """
    f = prime_field(k, modulus)
    lane = k.global_id()
    vector_index, piece = lane // width, lane % width
    with k.if_((piece < pieces) & (vector_index < vectors)):
        bundle_start, vector_start = table.bundles[piece // BUNDLE], vector_index * stride
        with k.range(0, table.lengths[piece], carry=f.loop_zero()) as loop:
            entry = entry_place(k, piece, bundle_start, loop.index)
            factor = f.load(vector, vector_start + table.indices[entry], linear=True)
            loop.next(f.bounded(loop.carried + f.load(table.values, entry) * factor))
        f.store(
            out, interleaved_index(table.targets[piece], vector_index, vectors, part), loop.results
        )


def interleaved_index(element: Value, vector_index: Value, vectors: Value, chunk: Value) -> Value:
    """Return the index of an element of one vector among interleaved vectors of products.

    Vectors are interleaved in chunks of `chunk` elements: first chunk 0 of each vector, then chunk
    1 of each, and so on.
    """
    return (element // chunk * vectors + vector_index) * chunk + element % chunk


@kernel
def add_pieces(
    k: Builder,
    targets: Pointer[U32],
    bounds: Pointer[U32],
    elements: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Workgroup g sets elements[targets[g]] to the sum of elements[bounds[g] : bounds[g + 1]]."""
    f = prime_field(k, modulus)
    shared = k.shared(types.u64, k.workgroup_size * f.word_count)
    group, lane = k.workgroup_id(), k.local_id()
    with k.range(
        bounds[group] + lane, bounds[group + 1], k.workgroup_size, carry=f.loop_zero()
    ) as loop:
        loop.next(f.bounded(loop.carried + f.load(elements, loop.index, linear=True)))
    f.store(shared, lane, loop.results)
    _add_shared(k, f, shared, lane)
    with k.if_(lane == 0):
        f.store(elements, targets[group], f.load(shared, lane, linear=True))


@kernel
def add_pieces_of_each(
    k: Builder,
    rows: U32,
    vectors: U32,
    part: U32,
    targets: Pointer[U32],
    bounds: Pointer[U32],
    elements: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Add as `add_pieces`, with one workgroup per split row and vector.

    rows: the number of split rows; part: see `interleaved_index`.
    """
    f = prime_field(k, modulus)
    shared = k.shared(types.u64, k.workgroup_size * f.word_count)
    group, lane = k.workgroup_id(), k.local_id()
    vector_index, row = group // rows, group % rows
    with k.range(
        bounds[row] + lane, bounds[row + 1], k.workgroup_size, carry=f.loop_zero()
    ) as loop:
        index = interleaved_index(loop.index, vector_index, vectors, part)
        loop.next(f.bounded(loop.carried + f.load(elements, index, linear=True)))
    f.store(shared, lane, loop.results)
    _add_shared(k, f, shared, lane)
    with k.if_(lane == 0):
        index = interleaved_index(targets[row], vector_index, vectors, part)
        f.store(elements, index, f.load(shared, lane, linear=True))


def _add_shared(k: Builder, f: PrimeField, shared: Value, lane: Value) -> None:
    """Add the elements of all lanes into element 0; contains barriers.

    The workgroup size must be a power of two. A barrier must follow if other lanes read the sum.
    """
    half = k.workgroup_size // 2
    while half:
        k.barrier()
        with k.if_(lane < half):
            pair_sum = f.load(shared, lane, linear=True) + f.load(shared, lane + half, linear=True)
            f.store(shared, lane, pair_sum)
        half //= 2


@frozen
class Layout:
    """The layout of pieces, as uint32 host arrays (`bundles` uint64) in the order of the pieces.

    height: the number of rows.
    room: the number of entries, including the padding of bundles.
    first, lengths: the index of the first entry, and the number of entries, of each piece.
    targets: the element of each piece's sum: its row, or `height` + n for a piece of a split row.
    bundles: the index of each bundle's first entry among the `room` entries.
    cut, bounds: split row cut[g] is the sum of elements bounds[g] to bounds[g + 1] - 1.
    """

    height: int
    room: int
    first: Array
    lengths: Array
    targets: Array
    bundles: Array
    cut: Array
    bounds: Array

    @classmethod
    def of_rows(cls, height: int, row: Array, start: Array, length: Array) -> Layout:
        """Lay out rows: row[i] has length[i] entries from entry start[i]; rows are distinct.

        Other rows are empty. Raises InputError if rows and pieces are more than 2**32 - 1.
        """
        starts, lengths = np.zeros(height, np.uint32), np.zeros(height, np.uint32)
        starts[row], lengths[row] = start, length
        targets = np.arange(height, dtype=np.uint32)
        split_rows = np.flatnonzero(lengths > PIECE)
        bounds = np.zeros(1, np.uint32)
        if len(split_rows):
            counts = -(-lengths[split_rows].astype(np.int64) // PIECE)
            bounds = height + np.concatenate([[0], np.cumsum(counts)])
            if bounds[-1] >= 1 << 32:
                raise InputError(f"{bounds[-1]} rows and pieces of rows are more than 2**32 - 1")
            piece_in_row = np.arange(counts.sum()) - np.repeat(bounds[:-1] - height, counts)
            row_lengths = np.repeat(lengths[split_rows], counts)
            unsplit_rows = lengths <= PIECE
            targets = np.append(targets[unsplit_rows], np.arange(height, bounds[-1]))
            starts = np.append(
                starts[unsplit_rows], np.repeat(starts[split_rows], counts) + piece_in_row * PIECE
            )
            lengths = np.append(
                lengths[unsplit_rows], np.minimum(PIECE, row_lengths - piece_in_row * PIECE)
            )
        # Longest first, also in each bundle. NumPy sorts uint8 keys by radix; a stable sort mostly
        # keeps neighbouring rows in neighbouring pieces.
        order = np.argsort((PIECE - lengths.astype(np.int64)).astype(np.uint8), kind="stable")
        lengths = lengths[order].astype(np.uint32)
        bundle_entries = lengths[::BUNDLE].astype(np.uint64) * BUNDLE
        ends = np.cumsum(bundle_entries, dtype=np.uint64)
        return cls(
            height,
            int(ends[-1]),
            starts[order].astype(np.uint32),
            lengths,
            targets[order].astype(np.uint32),
            ends - bundle_entries,
            split_rows.astype(np.uint32),
            bounds.astype(np.uint32),
        )

    @property
    def elements(self) -> int:
        """The number of elements of the result: the rows, then the sums of pieces."""
        return max(self.height, int(self.bounds[-1]))

    def runs(self, most: int) -> Iterator[tuple[slice, slice, int]]:
        """Split the bundles into runs of at most `most` entries, including padding.

        Yields, per run, a slice of pieces, a slice of bundles, and the padded number of entries. A
        run has at least one bundle, so it may have PIECE * BUNDLE entries even if `most` is less.
        """
        ends = np.append(self.bundles[1:], np.uint64(self.room)).astype(np.int64)
        begin = 0
        while begin < len(ends):
            start = int(self.bundles[begin])
            end = max(begin + 1, int(np.searchsorted(ends, start + most, side="right")))
            pieces = slice(begin * BUNDLE, min(end * BUNDLE, len(self.lengths)))
            yield pieces, slice(begin, end), int(ends[end - 1]) - start
            begin = end


@frozen(eq=False)
class Pieces:
    """Pieces of rows and their entries in device memory, in the layout of `PieceTable`.

    count: the number of pieces; nonzeros: the number of entries without padding.
    """

    count: int
    nonzeros: int
    targets: Buffer
    lengths: Buffer
    bundles: Buffer
    indices: Buffer
    values: Buffer

    @property
    def table(self) -> PieceTable:
        """The kernel argument with these buffers."""
        return PieceTable(self.targets, self.lengths, self.bundles, self.indices, self.values)

    @property
    def nbytes(self) -> int:
        buffers = (self.targets, self.lengths, self.bundles, self.indices, self.values)
        return sum(buffer.nbytes for buffer in buffers)

    def record(
        self, recording: RecordingStream, device: AnyDevice, modulus: Modulus, vector: Buffer,
        out: Buffer,
    ) -> None:  # fmt: skip
        """Record the products of the pieces with `vector`; see `DeviceMatrix.record`."""
        nonzeros, size = self.nonzeros, modulus.bytes
        recording.launch(
            device.compile(multiply_pieces, modulus=modulus), -(-self.count // device.lanes),
            self.count, self.table, vector, out, label="A·w, B·w",
            bytes=nonzeros * (4 + 2 * size) + self.count * size, modmuls=nonzeros,
            multiply_adds=nonzeros * product_cost(modulus),
        )  # fmt: skip

    def record_vectors(
        self, recording: RecordingStream, device: AnyDevice, modulus: Modulus, vectors: int,
        stride: int, chunk: int, vector: Buffer, out: Buffer,
    ) -> None:  # fmt: skip
        """Record the products with each of several vectors; see `DeviceMatrix.record_vectors`."""
        nonzeros, size = vectors * self.nonzeros, modulus.bytes
        width = -(-self.count // BUNDLE) * BUNDLE
        recording.launch(
            device.compile(multiply_pieces_by_each, modulus=modulus),
            -(-width * vectors // device.lanes), self.count, width, vectors, stride, chunk,
            self.table, vector, out, label="A·w, B·w",
            bytes=nonzeros * (4 + 2 * size) + vectors * self.count * size,
            modmuls=nonzeros, multiply_adds=nonzeros * product_cost(modulus),
        )  # fmt: skip


def _upload_pieces(
    device: AnyDevice,
    modulus: Modulus,
    coefficients: Coefficients,
    layout: Layout,
    run: tuple[slice, slice, int],
    index_word: int,
) -> Pieces:
    """Upload the pieces of one run, an item of `Layout.runs`."""
    piece_slice, bundle_slice, padded_entries = run
    first, lengths = layout.first[piece_slice], layout.lengths[piece_slice]
    count, lengths64 = len(lengths), lengths.astype(np.int64)
    if count < len(layout.lengths):
        # Upload only the entries of these pieces.
        piece_starts = np.cumsum(lengths64) - lengths64
        entry_indices = np.arange(lengths64.sum()) + np.repeat(first - piece_starts, lengths64)
        coefficients, first = gathered(coefficients, entry_indices), piece_starts.astype(np.uint32)
    starts = layout.bundles[bundle_slice] - layout.bundles[bundle_slice.start]
    targets, device_lengths, device_bundles = (
        device.upload(array) for array in (layout.targets[piece_slice], lengths, starts)
    )
    indices = device.allocate(4 * padded_entries, zero=False)
    values = device.allocate(modulus.bytes * padded_entries, zero=False)
    words = np.ascontiguousarray(coefficients).view(np.uint32).reshape(-1)
    device.launch(
        device.compile(lay_out_rows, words=modulus.words, index=index_word),
        -(-count // device.lanes),
        count,
        device.upload(first),
        device_lengths,
        device_bundles,
        device.upload(np.require(words, requirements=("C", "A"))),
        indices,
        values,
    )
    return Pieces(
        count, int(lengths64.sum()), targets, device_lengths, device_bundles, indices, values
    )  # fmt: skip


class DeviceMatrix(SparseMatrix):
    """A sparse matrix in the memory of a GPU.

    elements, nonzeros, height: the numbers of a product's elements (`Layout`), entries and rows.
    """

    def __init__(self, device: AnyDevice, modulus: Modulus, rows: RowEntries) -> None:
        self._device, self._modulus = device, modulus
        self.nonzeros, self.height = len(rows.entries), rows.height
        layout = Layout.of_rows(rows.height, rows.row, rows.start, rows.stop - rows.start)
        self.elements = layout.elements
        self._split_count = len(layout.cut)
        self._split_rows, self._bounds = device.upload(layout.cut), device.upload(layout.bounds)
        # The number of entries, in the file's layout, that fit the largest buffer.
        max_entries = device.largest_buffer // (4 * (HEAD_WORDS + modulus.words))
        self._runs = [
            _upload_pieces(device, modulus, rows.entries, layout, run, rows.index_word)
            for run in layout.runs(max_entries)
        ]
        self._add = device.compile(add_pieces, modulus=modulus)

    @staticmethod
    def max_elements(nonzeros: int, height: int) -> int:
        """Return an upper bound on `elements`."""
        # A split row of n > PIECE entries has ceil(n / PIECE) <= 2 * (n // PIECE) pieces.
        return height + 2 * (nonzeros // PIECE)

    @staticmethod
    def peak_bytes(modulus: Modulus, nonzeros: int, height: int) -> int:
        """Return an upper bound on the bytes that laying out `nonzeros` entries takes."""
        pieces = DeviceMatrix.max_elements(nonzeros, height)
        entry_bytes = 4 * (HEAD_WORDS + modulus.words) + 4 + modulus.bytes
        return entry_bytes * nonzeros + (4 + modulus.bytes) * BUNDLE * PIECE + 16 * pieces

    @property
    def nbytes(self) -> int:
        """The bytes of device memory of the matrix."""
        run_bytes = sum(run.nbytes for run in self._runs)
        return run_bytes + self._split_rows.nbytes + self._bounds.nbytes

    def multiply(self, vector: Words, out: Words) -> None:
        """See `SparseMatrix`; waits for the products, and overwrites all of `out`."""
        device = self._device
        products = device.allocate(self.elements * self._modulus.bytes, zero=False)
        recording = device.stream("sparse").record()
        recording.fill(products, UNWRITTEN)
        self.record(recording, device.upload(np.ascontiguousarray(vector)), products)
        recording.finish().run()
        device.download(products.slice(0, out.nbytes), out)
        check_written(device, "products of matrices", out)

    def record(self, recording: RecordingStream, vector: Buffer, out: Buffer) -> None:
        """Record the products with `vector` of canonical integers; results are in Montgomery form.

        out: memory for `elements` elements, which need not be zero.
        """
        for run in self._runs:
            run.record(recording, self._device, self._modulus, vector, out)
        if self._split_count:
            recording.launch(
                self._add, self._split_count, self._split_rows, self._bounds, out,
                label="A·w, B·w",
            )  # fmt: skip

    def record_vectors(
        self, recording: RecordingStream, vectors: int, stride: int, chunk: int, vector: Buffer,
        out: Buffer,
    ) -> None:  # fmt: skip
        """Record the products with each of `vectors` vectors that start `stride` elements apart.

        out: products interleaved in chunks of `chunk` elements (`interleaved_index`): memory for
            vectors * n elements, where n is `elements` rounded up to a multiple of `chunk`.
        """
        for run in self._runs:
            run.record_vectors(
                recording, self._device, self._modulus, vectors, stride, chunk, vector, out
            )
        if self._split_count:
            recording.launch(
                self._device.compile(add_pieces_of_each, modulus=self._modulus),
                self._split_count * vectors, self._split_count, vectors, chunk, self._split_rows,
                self._bounds, out, label="A·w, B·w",
            )  # fmt: skip
