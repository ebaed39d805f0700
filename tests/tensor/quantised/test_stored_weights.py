"""Rows by weights that are dequantised once: against float64 and against fused products, which plan
is taken, memory for the weights, recordings, bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recorder import recorder_of
from quod.errors import DeviceError, InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor.quantised import (
    BLOCK_TYPES,
    ProductLayout,
    QuantisedMatrix,
    dequantise,
    quantise,
)
from quod.tensor.quantised.batch import max_vectors
from quod.tensor.quantised.dequantising import DEQUANTISE, dequantise_launch
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.conftest import open_for_test
from tests.support.devices import present
from tests.support.ptx_assembler import assemble, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.numbers import TYPES, Array, Guarded, amid_poison, numbers, stored
from tests.tensor.quantised.blocks import random_blocks
from tests.tensor.quantised.test_batches import check, scaled

DEQUANTISED: Any = {"plan": "dequantised"}


@pytest.fixture(scope="module", params=present("cpu", "emulated", "emulated:ptx", "webgpu", "cuda"))
def any_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as device:
        yield device


@pytest.fixture(scope="module")
def warpgroups() -> Iterator[AnyDevice]:
    with open_device("emulated") as device:
        yield device


def blocks_of(name: str) -> int:
    return 5 if QUANTISED_TYPES[name].elements < 256 else 1


# --- results


@pytest.mark.crossed("any_device", "element", "name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_values_rounded_once(any_device: AnyDevice, name: str, element: Type) -> None:
    """Blocks that do not fill a workgroup; numbers beyond f16 become infinite."""
    data = random_blocks(name, 3, 5)
    wanted = dequantise(name, data)
    out = Guarded(any_device, stored(np.zeros(wanted.shape, np.float32), element))
    blocks = any_device.upload(data.reshape(-1))
    any_device.launch(*dequantise_launch(any_device, name, data.size, blocks, out.memory, element))
    with np.errstate(over="ignore"):
        assert np.array_equal(out.array(), stored(wanted, element))


def test_non_finite_scales(any_device: AnyDevice) -> None:
    if any_device.kind == "webgpu":
        pytest.skip("results of infinite scales are undefined on this device")
    data = scaled("Q8_0", 1, 3)
    data.view(np.float16)[0, [0, 17]] = np.inf, np.nan
    out = any_device.upload(np.zeros((1, 96), np.float16))
    blocks = any_device.upload(data.reshape(-1))
    any_device.launch(*dequantise_launch(any_device, "Q8_0", data.size, blocks, out, f16))
    weights = np.zeros((1, 96), np.float16)
    any_device.download(out, weights)
    with np.errstate(invalid="ignore"):
        wanted = dequantise("Q8_0", data).astype(np.float16)
    assert np.array_equal(weights, wanted, equal_nan=True)


@pytest.mark.crossed("any_device", "name")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_every_type(any_device: AnyDevice, name: str) -> None:
    for number, element in enumerate(TYPES):
        check(any_device, name, element, 5 + number, 20, blocks_of(name), **DEQUANTISED)


@pytest.mark.crossed("any_device", "m")
@pytest.mark.parametrize(("m", "n", "blocks"), [(1, 1, 1), (63, 65, 1), (65, 63, 3), (129, 72, 2)])
def test_edge_shapes(any_device: AnyDevice, m: int, n: int, blocks: int) -> None:
    check(any_device, "Q8_0", f16, m, n, blocks, **DEQUANTISED)


@pytest.mark.crossed("element", "name", "device_name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", BLOCK_TYPES)
@pytest.mark.parametrize("device_name", present("emulated", "emulated:ptx", "cuda"))
def test_both_plans_multiply_the_same_weights(
    device_name: str, name: str, element: Type
) -> None:  # fmt: skip
    """To the bit, by rows that name one element of K each, where no sum is rounded."""
    with open_for_test(device_name) as device:
        data = scaled(name, 9, blocks_of(name))
        matrix = QuantisedMatrix(device, name, data)
        x = np.zeros((11, matrix.columns), np.float32)
        x[np.arange(11), np.arange(11) * 37 % matrix.columns] = 2
        x = stored(x, element)
        fused, dequantised = (matrix.multiply(x, plan=plan) for plan in ("fused", "dequantised"))
        assert np.array_equal(fused, dequantised)
        wanted = numbers(stored(dequantise(name, data), element), element)
        assert np.array_equal(numbers(dequantised, element), numbers(x, element) @ wanted.T)


def test_arrays_and_buffers_give_the_same(warpgroups: AnyDevice) -> None:
    matrix = QuantisedMatrix(warpgroups, "Q4_0", scaled("Q4_0", 7, 2))
    x = stored(np.random.default_rng(0).normal(size=(2, 3, 64)), f16)
    y = matrix.multiply(x, **DEQUANTISED)
    assert y.shape == (2, 3, 7)
    out = warpgroups.upload(np.zeros((2, 3, 7), np.float16))
    matrix.multiply(warpgroups.upload(x), out, **DEQUANTISED)
    other = np.zeros_like(y)
    warpgroups.download(out, other)
    assert np.array_equal(y, other)
    assert matrix.multiply(x[:0], **DEQUANTISED).shape == (0, 3, 7)


# --- which plan


def test_plan_selection(warpgroups: AnyDevice) -> None:
    """Two launches on devices with warpgroups, except for few rows."""
    data = scaled("Q8_0", 3, 1)
    for name, element, rows, launches in (
        ("emulated", f16, 6, 2), ("emulated", bf16, 130, 2), ("emulated", f32, 11, 2),
        ("emulated:ptx", f16, 130, 1), ("cpu", f16, 130, 1),
    ):  # fmt: skip
        device = open_device(name)
        matrix = QuantisedMatrix(device, "Q8_0", data)
        host = [stored(np.zeros((rows, size), np.float32), element) for size in (32, 3)]
        x, y = map(device.upload, host)
        assert len(matrix.launches(x, y)) == launches
        size = 32 * 3 * element.bytes
        assert matrix.workspace_bytes(x) == (size if launches == 2 else 0)
        assert matrix.workspace_bytes(x, plan="fused") == 0
        assert matrix.workspace_bytes(x, **DEQUANTISED) == size
        assert len(matrix.launches(x, y, plan="fused")) == 1
        assert len(matrix.launches(x, y, **DEQUANTISED)) == 2
        assert len(matrix.launches(*host)) == 1  # whose address no recording has
    assert matrix.workspace_bytes(np.zeros(32, np.float32)) == 0
    assert matrix.workspace_bytes(np.zeros((0, 32), np.float32), **DEQUANTISED) == 0


def test_threshold_of_few_rows() -> None:
    max_rows = {
        (name, on_cores): [
            max_vectors(name, element, on_cores=on_cores) for element in (f32, f16, bf16)
        ]
        for name, on_cores in (("Q4_K", True), ("Q4_K", False), ("Q6_K", False), ("NF4", False))
    }
    assert max_rows == {
        ("Q4_K", True): [38, 13, 13], ("Q4_K", False): [10, 5, 5], ("Q6_K", False): [15, 6, 6],
        ("NF4", False): [10, 5, 5],
    }  # fmt: skip


@pytest.mark.crossed("element", "name", "device_name")
@pytest.mark.parametrize("element", TYPES, ids=str)
@pytest.mark.parametrize("name", ["Q4_K", "Q5_K", "Q8_0", "NF4"])
@pytest.mark.parametrize("device_name", present("emulated", "cuda"))
def test_few_rows_are_multiplied_as_vectors(device_name: str, name: str, element: Type) -> None:
    """A result is that of a vector, rounded once to its type."""
    with open_for_test(device_name) as device:
        most = max_vectors(name, element, on_cores=name == "Q4_K")
        blocks = 1 if QUANTISED_TYPES[name].elements == 256 else 2
        for rows, n in ((1, 3), (most, 8), (most + 1, 8), (2, 3)):
            matrix = QuantisedMatrix(device, name, scaled(name, n, blocks))
            zeros_x, out = (
                device.upload(stored(np.zeros((rows, size), np.float32), element))
                for size in (matrix.columns, n)
            )
            # Memory begins at multiples of 16 bytes.
            few = rows <= most and (rows, n) != (2, 3)
            assert len(matrix.launches(zeros_x, out)) == (rows if few else 2)
            assert len(matrix.launches(zeros_x, out, plan="fused")) == 1
            size = n * matrix.columns * element.bytes
            assert matrix.workspace_bytes(zeros_x) == (0 if few else size)
            assert matrix.workspace_bytes(zeros_x, **DEQUANTISED) == size
        x = stored(np.random.default_rng(4).normal(size=(2, matrix.columns)), element)
        matrix = QuantisedMatrix(device, name, scaled(name, 8, blocks))
        guarded = Guarded(device, stored(np.zeros((2, 8), np.float32), element))
        matrix.multiply(amid_poison(device, x), guarded.memory)
        vectors = numbers(x, element).astype(np.float32)
        wanted = stored(np.array([matrix.multiply(each) for each in vectors]), element)
        assert np.array_equal(guarded.array(), wanted)
        assert np.array_equal(matrix.multiply(x), wanted)


@pytest.mark.crossed("element", "name")
@pytest.mark.parametrize("element", [f16, bf16], ids=str)
@pytest.mark.parametrize(
    ("name", "width"), [("Q4_0", 1), ("Q4_0", 2), ("Q6_K", 8), ("Q8_0", 4), ("NF4", 16)]
)
def test_vectors_of_16_bits(name: str, width: int, element: Type) -> None:
    """In accesses of any width; a layout is the caller's."""
    with open_device("emulated:ptx") as device:
        layout = ProductLayout(32, width, 2)
        data = scaled(name, 5, blocks_of(name))
        matrix = QuantisedMatrix(device, name, data, layout=layout)
        x = stored(np.random.default_rng(5).normal(size=matrix.columns), element)
        y = Guarded(device, stored(np.zeros(5, np.float32), element))
        device.launch(*matrix._vector_launch(element, amid_poison(device, x), y.memory))
        wanted = matrix.multiply(numbers(x, element).astype(np.float32))
        assert np.array_equal(y.array(), stored(wanted, element))


def test_fused_plan_without_memory_for_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    x = stored(np.random.default_rng(3).normal(size=(4, 64)), f16)
    with open_device("emulated") as device:
        matrix = QuantisedMatrix(device, "Q8_0", scaled("Q8_0", 7, 2))
        room = device.allocate(matrix.workspace_bytes(x))
        fused, default = matrix.multiply(x, plan="fused"), matrix.multiply(x)
        allocate = device.allocate

        def limited(nbytes: int, **how: Any) -> Any:
            if nbytes == room.nbytes:
                raise DeviceError("there is too little memory")
            return allocate(nbytes, **how)

        monkeypatch.setattr(device, "allocate", limited)
        assert np.array_equal(matrix.multiply(x), fused)
        assert np.array_equal(matrix.multiply(x, workspace=room), default)
        with pytest.raises(DeviceError, match="there is too little memory"):
            matrix.multiply(x, **DEQUANTISED)


# --- memory and recordings


def chain(device: AnyDevice, x: Any, matrices: int, **how: Any) -> tuple[list[Any], Any, Any]:
    """A recording of products, each of the rows that the one before gave, and their weights."""
    data = [scaled("Q8_0", 64, 2).copy() for _ in range(matrices)]
    for number, each in enumerate(data):
        each[:, 2:34] = np.roll(each[:, 2:34], 5 * number, 1)
    between = [device.upload(np.zeros((9, 64), np.float16)) for _ in range(2)]
    recording = device.stream("rows").record()
    for number, each in enumerate(data):
        matrix, target = QuantisedMatrix(device, "Q8_0", each), between[number % 2]
        for launch in matrix.launches(x, target, **DEQUANTISED, **how):
            recording.launch(*launch)
        x = target
    return data, recording.finish().recording, x


@pytest.mark.parametrize("shared", one_and_others([True, False]), ids=["shared", "own"])
@pytest.mark.parametrize("name", present("cpu", "emulated", "emulated:ptx", "cuda"))
def test_recorded_products(name: str, shared: bool) -> None:
    """One workspace for products behind each other, whose surroundings stay; each replay has the
    bits of calls, launches that begin early and all."""
    with open_for_test(name) as device:
        rows = stored(np.random.default_rng(2).normal(size=(9, 64)), f16)
        room, x = Guarded(device, np.zeros((64, 64), np.float16)), device.upload(rows)
        how = {"workspace": room.memory} if shared else {}
        data, recorded, last = chain(device, x, 3, **how)
        expected = rows
        for each in data:
            expected = QuantisedMatrix(device, "Q8_0", each).multiply(expected, **DEQUANTISED)
        for _ in range(3):
            device.stream("rows").replay(recorded).run()
            y = np.zeros_like(rows)
            device.download(last, y)
            assert np.isfinite(y).all()
            assert np.array_equal(y, expected)
        if shared:
            assert np.array_equal(room.array(), dequantise("Q8_0", data[2]).astype(np.float16))


def test_a_recorder_records_both_launches(warpgroups: AnyDevice) -> None:
    data = scaled("Q4_0", 5, 2)
    x, y = (warpgroups.upload(np.ones((4, size), np.float16)) for size in (64, 5))
    stream = warpgroups.stream("recorder").record()
    recorder = recorder_of(warpgroups, stream)
    QuantisedMatrix(recorder, "Q4_0", data).multiply(x, y, **DEQUANTISED)
    recorded = stream.finish().recording
    assert len(recorded.steps) == 2
    warpgroups.stream("recorder").replay(recorded).run()
    product = np.zeros((4, 5), np.float16)
    warpgroups.download(y, product)
    wanted = QuantisedMatrix(warpgroups, "Q4_0", data).multiply(
        np.ones((4, 64), np.float16), **DEQUANTISED
    )
    assert np.array_equal(product, wanted)


def test_blocks_are_loaded_before_the_dependency_wait() -> None:
    with open_device("emulated") as device:
        matrix = QuantisedMatrix(device, "Q4_K", scaled("Q4_K", 3, 1))
        x, y = (device.upload(np.zeros((4, size), np.float16)) for size in (256, 3))
        first, second = (launch[0] for launch in matrix.launches(x, y, **DEQUANTISED))
        assert [list(first.slots)[at] for at in first.early] == ["blocks"]
        assert [list(second.slots)[at] for at in second.early] == ["maps"]


# --- machine code


@pytest.mark.parametrize("name", one_and_others(["Q4_0", "Q4_K", "Q6_K"]))
def test_stores_are_as_wide_as_possible(name: str) -> None:
    machine = ptx_machine(256, "sm_90a")
    static: Any = {"form": name, "element": f16, "width": 8, "at_once": 1}
    cubin, log = assemble(ptx.emit(DEQUANTISE[f16].trace(machine, **static), machine), "sm_90a")
    assert not usage(log).spill_store_bytes
    stores = [line for line in sass(cubin) if "STG" in line]
    assert len(stores) == QUANTISED_TYPES[name].decoder.runs
    assert all("STG.E.128" in line for line in stores)


# --- bad input

DATA = quantise("Q8_0", np.ones((2, 32), np.float32))
X = np.zeros((4, 32), np.float32)
ROOM = np.zeros(512, np.uint8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, d: m.multiply(X, plan="both"), "plan must be fused or dequantised, not 'both'"),
        (lambda m, d: m.multiply(X[0], plan="fused"), "plan is for rows with exact activations"),
        (
            lambda m, d: m.multiply(X, plan="fused", activations="int8"),
            "plan is for rows with exact activations",
        ),
        (lambda m, d: m.launches(X[0], X[0, :2], **DEQUANTISED), "plan is for rows with exact"),
        (lambda m, d: m.workspace_bytes(X[0], **DEQUANTISED), "plan is for rows with exact act"),
        (lambda m, d: m.workspace_bytes(X[:, :31].copy()), "x must have rows of 32 elements"),
        (lambda m, d: m.workspace_bytes(X[0, :31]), r"x must be float32 of shape \(32,\)"),
        (
            lambda m, d: m.multiply(X, workspace=ROOM, **DEQUANTISED),
            "workspace must be of the type Buffer, not ndarray; ",
        ),
        (lambda m, d: m.multiply(X[0], workspace=ROOM), "workspace must be of the type Buffer, "),
        (
            lambda m, d: m.launches(X[0], X[0, :2], workspace=ROOM),
            "workspace must be of the type Buffer, not ndarray; ",
        ),
        (
            lambda m, d: m.multiply(X, workspace=d.allocate(255), **DEQUANTISED),
            "workspace must have 256 bytes at least, and begin at a multiple of 16$",
        ),
        (
            lambda m, d: m.multiply(X, workspace=d.allocate(300).slice(4, 300), **DEQUANTISED),
            "workspace must have 256 bytes at least, and begin at a multiple of 16$",
        ),
    ],
)
def test_bad_input(call: Callable[[Any, Any], Any], message: str) -> None:
    with open_device("emulated:ptx") as device:
        matrix = QuantisedMatrix(device, "Q8_0", DATA)
        with pytest.raises(InputError, match=message):
            call(matrix, device)


def test_workspace_must_not_alias_operands(warpgroups: AnyDevice) -> None:
    matrix = QuantisedMatrix(warpgroups, "Q8_0", scaled("Q8_0", 3, 1))
    x, y = (warpgroups.upload(np.zeros((40, size), np.float16)) for size in (32, 3))
    for name, room in (("x", x), ("y", y)):
        with pytest.raises(InputError, match=f"workspace is in the memory of {name}; take other"):
            matrix.multiply(x, y, workspace=room, **DEQUANTISED)
    # On a processor the matrix is the caller's array.
    data = np.concatenate([scaled("Q8_0", 3, 1)] * 3)
    matrix = QuantisedMatrix("cpu", "Q8_0", data[:3])
    with pytest.raises(InputError, match="workspace is in the memory of the matrix; take other"):
        matrix.multiply(np.zeros((4, 32), np.float16), workspace=Buffer.wrap(data), **DEQUANTISED)


def test_invalid_workspaces_are_rejected(warpgroups: AnyDevice) -> None:
    matrix = QuantisedMatrix(warpgroups, "Q8_0", DATA)
    x, y = X.astype(np.float16), np.zeros((4, 2), np.float16)
    with open_device("cpu") as other, pytest.raises(DeviceError, match="workspace is memory of"):
        matrix.multiply(x, workspace=other.allocate(128), **DEQUANTISED)
    with pytest.raises(
        DeviceError, match=r"^x is an array, and kernels read memory of .*; upload it$"
    ):
        matrix.launches(x, y, **DEQUANTISED)
    read = np.zeros(128, np.uint8)
    read.flags.writeable = False
    host = QuantisedMatrix("cpu", "Q8_0", DATA)
    with pytest.raises(DeviceError, match="workspace is read-only, and weights are stored to it"):
        host.multiply(x, workspace=Buffer.wrap(read), **DEQUANTISED)


def test_weights_of_many_rows_are_rounded_to_the_type(warpgroups: AnyDevice) -> None:
    """A weight that f16 does not hold is infinite, as where it is rounded on the way."""
    data = quantise("Q8_0", np.full((1, 32), 80000, np.float32))
    matrix = QuantisedMatrix(warpgroups, "Q8_0", data)
    ones: Array = np.ones((1, 32), np.float16)
    for plan in ("fused", "dequantised"):
        assert np.isposinf(matrix.multiply(ones, plan=plan)).all()
    poisoned = amid_poison(warpgroups, ones)
    out = Guarded(warpgroups, np.zeros((1, 1), np.float16))
    matrix.multiply(poisoned, out.memory, **DEQUANTISED)
    assert np.isposinf(out.array()).all()
