"""Tile layouts: distinct indices, and distinct banks for neighbours."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from quod.catalogue import find
from quod.codegen.ptx.machine import ptx_machine
from quod.codegen.wgsl.machine import WgslTarget
from quod.curve.named import CURVES
from quod.curve.named.bn254 import BN254
from quod.device.emulated.device import EmulatedDevice
from quod.errors import KernelError
from quod.field.roots import root_of_unity
from quod.kernel.ir.nodes import walk
from quod.ntt.gpu.layout import Step, Tile, arrange, padded, spread
from quod.ntt.gpu.schedule import DEFAULT_TUNING, SHORT_TUNINGS, Tuning, tuning_of
from quod.ntt.gpu.transform import PassParameters, transform_tiles
from quod.ntt.schedule import MAX_LOG2_SIZE
from quod.ntt.steps import steps_of

TUNINGS = [
    DEFAULT_TUNING, Tuning(9, 2, 8), Tuning(11, 3, 10), Tuning(5, 1, 3),
    Tuning(10, 3, 9, rolled=True), Tuning(10, 2, 9, rolled=True), *SHORT_TUNINGS.values(),
]  # fmt: skip


def arranged(tile: Tile) -> list[Step]:
    """The steps of a pass for neighbouring columns, for neighbouring rows and backwards."""
    rows, columns = list(tile.row_bits), list(tile.column_bits)
    orders = [columns + rows, rows + columns, rows[::-1] + columns[::-1]]
    return [
        arrange(tile, first, levels, preferred)
        for first, levels in steps_of(tile.log_rows, tile.log_elements)
        for preferred in orders
    ]


@pytest.mark.parametrize("tuning", TUNINGS, ids=str)
def test_each_index_bit_selects_elements_or_threads(tuning: Tuning) -> None:
    for log_rows in range(1, tuning.max_levels + 1):
        tile = tuning.tile(log_rows)
        for step in arranged(tile):
            assert len(step.registers) == tile.log_elements
            assert sorted(step.registers + step.threads) == list(range(tile.log_size))
            level_bits = [tile.log_columns + step.first + level for level in range(step.levels)]
            assert list(step.registers[: step.levels]) == level_bits


@pytest.mark.parametrize("tuning", [*TUNINGS[:3], *SHORT_TUNINGS.values()], ids=str)
def test_neighbours_use_distinct_banks(tuning: Tuning) -> None:
    for log_rows in range(1, tuning.max_levels + 1):
        tile = tuning.tile(log_rows)
        for step in arranged(tile):
            together = 1 << tile.log_banks

            def weigh(bit: int, log_banks: int = tile.log_banks) -> int:
                return padded(1 << bit, log_banks)

            for number, start in itertools.product(range(1 << tile.log_elements), (0, 1, 3)):
                places = [
                    spread(lane, step.threads, weigh) + spread(number, step.registers, weigh)
                    for lane in range(start * together, (start + 1) * together)
                ]
                assert len({place % together for place in places}) == together


def test_padded_indices_are_distinct_and_additive() -> None:
    places = [padded(index) for index in range(1 << 12)]
    assert len(set(places)) == len(places)
    assert max(places) < (1 << 12) * 8 / 7
    for a, b in [(0b1011, 0b0100), (0b111000111, 0b000111000), (1 << 11, (1 << 11) - 1)]:
        assert padded(a) + padded(b) == padded(a + b)


@pytest.mark.parametrize("tuning", TUNINGS, ids=str)
def test_passes_cover_every_size(tuning: Tuning) -> None:
    for log_size in range(MAX_LOG2_SIZE + 1):
        split = tuning.split(log_size)
        assert sum(split) == log_size
        assert len(split) == 1 or max(split) <= tuning.max_levels
        # What is no whole number of steps is in the uppermost pass.
        if tuning.rolled and len(split) > 1:
            assert all(tuning.is_rolled(log_rows) for log_rows in split[:-1] if log_rows > 3)
        # Neighbouring columns of a tile lie side by side, within one row.
        for number in range(1, len(split)):
            assert sum(split[:number]) >= tuning.tile(split[number]).log_columns


@pytest.mark.parametrize(
    "sizes", [(10, 5, 9), (10, 0, 9), (3, 3, 3), (14, 3, 9), (10, 3, 4), (8, 3, 9)], ids=str
)
def test_impossible_sizes_are_rejected(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="tile"):
        Tuning(*sizes)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize(("log_rows", "inner"), [(8, "full"), (9, "split"), (6, "none")])
def test_shape_counts_products(direction: str, log_rows: int, inner: str) -> None:
    curve = BN254
    tile = DEFAULT_TUNING.tile(log_rows)
    root = root_of_unity(curve.fr, "arkworks", 3)
    shape = PassParameters(direction, tile, "upper", root, inner=inner)  # type: ignore[arg-type]
    kernel = transform_tiles.trace(ptx_machine(tile.lanes), modulus=curve.fr, shape=shape)
    calls = [op.attributes["function"].name for op in walk(kernel.block) if op.name == "call"]
    elements = 1 << DEFAULT_TUNING.log_elements
    assert Counter(calls) == {
        f"{kind}.{curve.fr.name}": count * elements
        for kind, count in (
            ("prepared_product", shape.twiddle_products),
            ("sum_of_1_products", shape.factor_products),
        )
        if count
    }
    assert kernel.shared_bytes <= 48 * 1024


def test_only_equal_steps_are_a_loop() -> None:
    root = root_of_unity(CURVES["bn254"].fr, "arkworks", 3)
    shape = PassParameters("ascending", Tuning(10, 3, 9).tile(8), "upper", root, rolled=True)
    with pytest.raises(KernelError, match="8 levels are no loop of steps of 3 levels"):
        transform_tiles.trace(ptx_machine(128), modulus=CURVES["bn254"].fr, shape=shape)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_tile_determines_the_workgroup_size(direction: str) -> None:
    tiles_kernel = find(f"ntt_{direction}_tiles.bn254.fr")
    assert tiles_kernel.trace(ptx_machine(128)).workgroup_size == 128
    message = r"tiles of 2\^9 elements, 2\^2 an instance, take workgroups of 128, not 64"
    with pytest.raises(KernelError, match=message):
        tiles_kernel.trace(ptx_machine(64))


def test_tiles_fit_the_workgroup_memory() -> None:
    curve = BN254
    assert tuning_of(EmulatedDevice(), curve.fr) == DEFAULT_TUNING
    device = EmulatedDevice(executor="wgsl")
    tuning = tuning_of(device, curve.fr)
    assert (tuning.log_tile, tuning.log_elements, tuning.lanes) == (8, 2, 64)
    root = root_of_unity(curve.fr, "snarkjs", 2)
    for log_rows in (5, 8):
        tile = tuning.tile(log_rows)
        shape = PassParameters("descending", tile, "lowest", root, "rows", reversed="writes")
        machine = device.machine(tile.lanes)
        kernel = transform_tiles.trace(machine, modulus=curve.fr, shape=shape)
        assert kernel.shared_bytes <= machine.shared_bytes_limit


def test_slow_compilers_get_loops() -> None:
    """Few product calls are emitted, because each is inlined."""
    curve = CURVES["bn254"]
    root = root_of_unity(curve.fr, "snarkjs", 1)
    calls = {}
    for limbs in ("13", "13:rolled"):
        device = EmulatedDevice(executor="wgsl", target=WgslTarget(limbs=limbs))
        tuning = tuning_of(device, curve.fr)
        shape = PassParameters(
            "descending", tuning.tile(8), "upper", root, "full", rolled=tuning.is_rolled(8)
        )
        machine = device.machine(tuning.lanes)
        traced = transform_tiles.trace(machine, modulus=curve.fr, shape=shape)
        names = [op.attributes["function"].name for op in walk(traced.block) if op.name == "call"]
        calls[limbs] = sum("product" in name for name in names)
    assert calls == {"13": 17, "13:rolled": 3}
