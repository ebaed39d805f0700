"""A·w and B·w on a GPU against plain integers."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import integers_to_words, to_integers
from quod.formats import coefficient_dtype
from quod.groth16.gpu import matrix as module
from quod.groth16.gpu.matrix import BUNDLE, PIECE, DeviceMatrix, Layout
from tests.groth16.test_sparse import Entry, coefficients, random_entries, sums


def products(matrix: DeviceMatrix, vector: list[int]) -> list[int]:
    fr = CURVES["bn254"].fr
    out = np.zeros((matrix.height, fr.words), np.uint32)
    matrix.multiply(integers_to_words(fr, vector), out)
    return to_integers(fr, out)


@pytest.mark.parametrize(
    ("piece", "order"), [(8, "as snarkjs"), (8, "shuffled"), (PIECE, "shuffled")]
)
def test_products_with_a_witness(
    gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch, order: str, piece: int
) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    fr = CURVES["bn254"].fr
    rng = random.Random(f"{order} {piece}")
    entries = random_entries(rng, fr.value, 37, 29)
    # Rows of just one piece, one entry more, and very many.
    for constraint, length in ((50, piece), (51, piece + 1), (52, 40 * piece // 8)):
        entries += [(1, constraint, rng.randrange(29), fr.value - 1 - i) for i in range(length)]
    if order == "shuffled":
        rng.shuffle(entries)
    vector = [0, 1, fr.value - 1, fr.value - 2] + [rng.randrange(fr.value) for _ in range(25)]
    matrix = DeviceMatrix.from_coefficients(gpu_device, fr, coefficients(fr, entries), 64, 29)
    assert matrix.nonzeros == len(entries)
    assert matrix.elements > matrix.height == 128
    assert products(matrix, vector) == sums(fr, entries, vector, 128, transposed=False)


def products_with_each(matrix: DeviceMatrix, vectors: list[list[int]], part: int) -> list[int]:
    """Compute the products with each vector, and check that the memory behind them is unchanged."""
    device, fr = matrix._device, CURVES["bn254"].fr
    room = -(-matrix.elements // part) * part * len(vectors)
    words = np.concatenate([integers_to_words(fr, vector) for vector in vectors])
    out = np.full((room + 3, fr.words), 0xFFFFFFFF, np.uint32)
    memory = device.upload(out)
    recording = device.stream("sparse").record()
    matrix.record_vectors(
        recording, len(vectors), len(vectors[0]), part, device.upload(words),
        memory.slice(0, room * fr.bytes),
    )  # fmt: skip
    recording.finish().run()
    device.download(memory, out)
    assert (out[room:] == 0xFFFFFFFF).all()
    return to_integers(fr, out[: matrix.height * len(vectors)])


@pytest.mark.parametrize(("piece", "count"), [(8, 1), (8, 3), (PIECE, 3)])
def test_products_with_several_vectors(
    gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch, piece: int, count: int
) -> None:
    """Rows of A for each vector come first, then those of B; sums of pieces lie across parts."""
    monkeypatch.setattr(module, "PIECE", piece)
    fr, rng = CURVES["bn254"].fr, random.Random(piece)
    entries = random_entries(rng, fr.value, 13, 29)
    # So many pieces of a row of B that their sums take more than a part.
    entries += [(1, 12, rng.randrange(29), fr.value - 1 - i) for i in range(17 * piece)]
    vectors = [[rng.randrange(fr.value) for _ in range(29)] for _ in range(count - 1)]
    vectors.append([0, 1, fr.value - 1] + [0] * 26)
    matrix = DeviceMatrix.from_coefficients(gpu_device, fr, coefficients(fr, entries), 16, 29)
    assert matrix.elements > 3 * 16
    expected = [sums(fr, entries, vector, 32, transposed=False) for vector in vectors]
    rows = [products[part : part + 16] for part in (0, 16) for products in expected]
    assert products_with_each(matrix, vectors, 16) == [row for products in rows for row in products]


def test_by_the_text_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 8)
    fr = CURVES["bn254"].fr
    rng = random.Random(4)
    entries = random_entries(rng, fr.value, 7, 29)
    vector = [rng.randrange(fr.value) for _ in range(29)]
    device = EmulatedDevice(executor="ptx", workgroup=32)
    matrix = DeviceMatrix.from_coefficients(device, fr, coefficients(fr, entries), 8, 29)
    expected = sums(fr, entries, vector, 16, transposed=False)
    assert products(matrix, vector) == expected
    each = products_with_each(matrix, [vector, vector], 8)
    assert each == expected[:8] * 2 + expected[8:] * 2


def test_transposed_products(gpu_device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    rng = random.Random(1)
    entries = random_entries(rng, fr.value, 37, 29)
    vector = [rng.randrange(fr.value) for _ in range(37)]
    matrix = DeviceMatrix.transposed(gpu_device, fr, coefficients(fr, entries), 2, 29)
    assert products(matrix, vector) == sums(fr, entries, vector, 58, transposed=True)


def test_a_long_sum_of_the_largest_values(gpu_device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries: list[Entry] = [(0, 0, 0, fr.value - 1)] * 3000 + [(1, 0, 0, 1)]
    matrix = DeviceMatrix.from_coefficients(gpu_device, fr, coefficients(fr, entries), 1, 1)
    assert products(matrix, [fr.value - 1]) == [3000, fr.value - 1]


def test_no_entries(gpu_device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    empty = np.zeros(0, dtype=coefficient_dtype(fr.words))
    matrix = DeviceMatrix.from_coefficients(gpu_device, fr, empty, 4, 4)
    assert matrix.nonzeros == 0
    assert products(matrix, [1, 2, 3, 4]) == [0] * 8


def test_entries_outside_the_matrices(gpu_device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries = coefficients(fr, [(0, 0, 0, 1), (1, 1, 1 << 20, 1)])
    with pytest.raises(InputError, match="outside their 2 rows and 3 columns"):
        DeviceMatrix.from_coefficients(gpu_device, fr, entries, 2, 3)


def test_the_layout() -> None:
    rng = random.Random(2)
    height = 500
    row = np.array(sorted(rng.sample(range(height), 300)))
    length = np.array([rng.choice((1, 2, 7, PIECE, PIECE + 1, 1000)) for _ in row])
    start = np.cumsum(length) - length
    layout = Layout.of_rows(height, row, start, length)
    assert (np.diff(layout.lengths.astype(int)) <= 0).all()
    assert layout.lengths.max() == PIECE
    # Every entry belongs to one piece, of the row that it belongs to.
    owner = {}
    part_of = {
        int(element): int(layout.cut[group])
        for group in range(len(layout.cut))
        for element in range(layout.bounds[group], layout.bounds[group + 1])
    }
    for first, count, target in zip(layout.first, layout.lengths, layout.targets):
        for entry in range(first, first + count):
            assert entry not in owner
            owner[entry] = part_of.get(int(target), int(target))
    assert owner == {
        entry: int(number)
        for number, first, count in zip(row, start, length)
        for entry in range(first, first + count)
    }
    assert sorted(layout.targets) == sorted({*range(layout.elements)} - set(layout.cut.tolist()))
    # Bundles do not overlap, and end at the end.
    widths = layout.lengths[::BUNDLE].astype(int) * BUNDLE
    ends = np.append(layout.bundles[1:], layout.room).astype(int)
    assert (layout.bundles.astype(int) + widths == ends).all()


def test_memory_use_matches_the_estimate(gpu_device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries = random_entries(random.Random(3), fr.value, 200, 29)
    entries += [(0, 201, 3, 5)] * 1000
    matrix = DeviceMatrix.from_coefficients(gpu_device, fr, coefficients(fr, entries), 256, 29)
    assert 0 < matrix.nbytes < DeviceMatrix.peak_bytes(fr, len(entries), 512)


def test_runs_within_kernel_addressing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are in several arrays where an argument reaches little memory."""
    monkeypatch.setattr(module, "PIECE", 8)
    fr = CURVES["bn254"].fr
    entries = random_entries(random.Random(5), fr.value, 120, 29)
    entries += [(1, 121, i % 29, fr.value - 1 - i) for i in range(50)]
    vector = [0, 1, fr.value - 1] + [3**i for i in range(26)]
    device = EmulatedDevice(largest_buffer=44 * 10 * BUNDLE)
    matrix = DeviceMatrix.from_coefficients(device, fr, coefficients(fr, entries), 128, 29)
    assert len(matrix._runs) > 2
    assert products(matrix, vector) == sums(fr, entries, vector, 256, transposed=False)


def test_runs_cover_all_bundles() -> None:
    rng = random.Random(6)
    height = 400
    length = np.array([rng.choice((0, 1, 7, PIECE, 300)) for _ in range(height)])
    layout = Layout.of_rows(height, np.arange(height), np.cumsum(length) - length, length)
    for most in (1, PIECE * BUNDLE, 3 * PIECE * BUNDLE, 1 << 40):
        runs = list(layout.runs(most))
        assert sum(pieces.stop - pieces.start for pieces, _, _ in runs) == len(layout.lengths)
        assert sum(room for _, _, room in runs) == layout.room
        assert all(room <= max(most, PIECE * BUNDLE) for _, _, room in runs)
        for (entries, bundles, _), (other, following, _) in itertools.pairwise(runs):
            assert (entries.stop, bundles.stop) == (other.start, following.start)
            assert entries.start == bundles.start * BUNDLE
    assert len(runs) == 1
