"""Cross-entropy: against float64 at every edge, central differences, hostile rows and targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.cpu.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import cross_entropy
from quod.tensor.rows.plan import plan_rows
from tests.support.devices import present
from tests.support.thorough import one_and_others
from tests.tensor.numbers import LEAST, TYPES, UNIT, Array, Guarded, numbers, stored

COLUMNS = [1, 2, 7, 8, 63, 64, 65, 127, 128, 129, 1000, 4097]
FEW = [7, 65]
"""Sizes for drivers that take seconds to compile a plan."""
IGNORED = -100


def losses64(x: Array, targets: Array, ignored: int = IGNORED) -> Array:
    """The loss of each row, from its definition."""
    top = x.max(-1)
    used = targets != ignored
    target_logits = x[np.arange(len(x)), np.where(used, targets, 0)]
    return np.where(used, top - target_logits + np.log(np.exp(x - top[:, None]).sum(-1)), 0)


def gradient64(x: Array, targets: Array, ignored: int = IGNORED) -> Array:
    """The gradient of the sum of losses."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    powers /= powers.sum(-1, keepdims=True)
    used = targets != ignored
    powers[np.arange(len(x))[used], targets[used]] -= 1
    return powers * used[:, None]


def case(rows: int, columns: int, element: Type, seed: int = 0) -> tuple[Array, Array]:
    """Logits, and targets of which the first and last class and one that is ignored."""
    random = np.random.default_rng((columns, rows, seed))
    targets = random.integers(0, columns, rows).astype(np.int32)
    targets[:2] = [0, columns - 1][: len(targets)]
    if rows > 2:
        targets[2] = IGNORED
    return stored(random.normal(1, 4, (rows, columns)), element), targets


def check(device: AnyDevice, element: Type, rows: int, columns: int) -> None:
    """Losses and gradient between guards, by row, as sum and as mean, and in place."""
    logits, targets = case(rows, columns, element)
    x = numbers(logits, element)
    losses, slopes = losses64(x, targets), gradient64(x, targets)
    away = np.abs(x - x.max(-1, keepdims=True))
    spread = (np.exp(-away) * away).sum(-1) / np.exp(-away).sum(-1)
    largest = UNIT[f32] * (8 + 2 * spread + 2 * away.max(-1) + 2 * np.abs(losses))

    memory, classes = device.upload(logits.copy()), device.upload(targets)
    loss_room, room = Guarded(device, losses.astype(np.float32)), Guarded(device, logits)
    result = cross_entropy(
        device, memory, classes, reduction="none", gradient=room.memory, out=loss_room.memory
    )
    assert result is loss_room.memory
    assert (np.abs(loss_room.array() - losses) <= largest).all()
    gradient = numbers(room.array(), element)
    arithmetic = UNIT[f32] * (np.abs(slopes) * (16 + 2 * away) + 4 * (slopes < 0))
    rounding = UNIT[element] / 2 * np.abs(slopes) * 1.01 + 2 * LEAST[element] + 2.0**-100
    error = np.abs(gradient - slopes)
    worst = np.unravel_index(np.argmax(error - arithmetic - rounding), error.shape)
    assert (error <= arithmetic + rounding).all(), (columns, worst, gradient[worst], slopes[worst])

    total, mean_loss = Guarded(device, np.zeros(1, np.float32)), np.zeros(1, np.float32)
    cross_entropy(device, memory, classes, reduction="sum", out=total.memory)
    bound = largest.sum() + UNIT[f32] * 8 * losses.sum()
    assert abs(total.array()[0] - losses.sum()) <= bound
    used = max(1, int((targets != IGNORED).sum()))
    mean = cross_entropy(device, memory, classes, gradient=memory, gradient_scale=used)
    device.download(mean, mean_loss)
    assert abs(mean_loss[0] - losses.sum() / used) <= bound / used
    in_place = np.empty_like(logits)
    device.download(memory, in_place)
    unit = UNIT[f32] * (2 * np.abs(slopes) + 2) + UNIT[element] * np.abs(slopes)
    assert (np.abs(numbers(in_place, element) - gradient) <= unit + 2 * LEAST[element]).all()


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    for columns in FEW if device.kind == "webgpu" else COLUMNS:
        check(device, element, 5, columns)


@pytest.mark.crossed("gpu_device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_edge_shapes_on_gpus(gpu_device: AnyDevice, element: Type) -> None:
    for columns in FEW if gpu_device.kind == "webgpu" else [7, 65, 128, 1000]:
        check(gpu_device, element, 9, columns)


def test_many_rows(device: AnyDevice) -> None:
    for rows in [33] if device.kind == "webgpu" else [1, 8, 127, 128, 129, 4099]:
        check(device, f32, rows, 3)


def test_rows_longer_than_registers() -> None:
    with open_device("emulated:ptx") as device:
        assert not plan_rows(device, f32, 33002).single_step
        check(device, f32, 3, 33002)
        check(device, f16, 3, 32770)


def test_partially_copied_rows() -> None:
    with open_device("emulated:ptx") as device:
        for element, columns in ((f16, 40008),):
            assert plan_rows(device, element, columns).copied
            check(device, element, 3, columns)


@pytest.mark.thorough
def test_many_rows_on_an_emulated_gpu() -> None:
    with open_device("emulated:ptx") as device:
        check(device, f32, 40000, 3)


@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_on_an_emulated_gpu(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        for rows, columns in ((5, 7), (9, 64), (3, 1000), (17, 129)):
            check(device, element, rows, columns)


def test_central_differences() -> None:
    """The gradient is that of what the function gives, of each reduction."""
    logits, targets = case(4, 9, f32)
    slopes = np.empty_like(logits)
    h = 2.0**-6
    for reduction in ("mean", "sum"):
        cross_entropy("cpu", logits, targets, reduction=reduction, gradient=slopes)
        for row, column in np.ndindex(logits.shape):
            ends = []
            for offset in (h, -h):
                moved = logits.copy()
                moved[row, column] += offset
                ends.append(float(cross_entropy("cpu", moved, targets, reduction=reduction)[0]))
            assert abs((ends[0] - ends[1]) / (2 * h) - slopes[row, column]) < 4e-4


def test_two_runs_are_equal(device: AnyDevice) -> None:
    logits, targets = case(70, 65, f32)
    runs = []
    for _ in range(2):
        memory, total = device.upload(logits.copy()), np.empty(1, np.float32)
        device.download(cross_entropy(device, memory, targets, gradient=memory), total)
        slopes = np.empty_like(logits)
        device.download(memory, slopes)
        runs.append((total.tobytes(), slopes.tobytes()))
    assert runs[0] == runs[1]


def test_each_row_has_its_own_target() -> None:
    """A wrong place is told by its number: what is sure has no loss, and no gradient."""
    columns = 77
    sure = 200 * np.eye(columns, dtype=np.float32)
    with open_device("emulated:ptx") as gpu, open_device("cpu") as cpu:
        for device in (cpu, gpu):
            slopes = np.full_like(sure, 7)
            targets = np.arange(columns, dtype=np.uint32)
            losses = cross_entropy(device, sure, targets, reduction="none", gradient=slopes)
            assert not losses.any()
            assert not slopes.any()
            losses = cross_entropy(device, sure, targets[::-1].copy(), reduction="none")
            assert np.array_equal(losses, np.where(np.arange(columns) == 38, 0, 200))


@pytest.mark.parametrize("where", ["cpu", "emulated:ptx"])
def test_ignored_targets(where: str) -> None:
    logits, targets = case(9, 33, f32)
    slopes = np.full_like(logits, 7)
    with open_device(where) as device:
        for index, kind in ((IGNORED, np.int32), (0, np.uint32), (2**32 - 1, np.uint32)):
            all_of_them = np.full(9, index, kind)
            slopes[:] = 7
            logits[3] = np.nan
            for reduction in ("mean", "sum"):
                losses = cross_entropy(
                    device, logits, all_of_them, ignore_index=index, reduction=reduction,
                    gradient=slopes,
                )  # fmt: skip
                assert losses[0] == 0
                assert not slopes.any()
        logits, targets = case(9, 33, f32)
        targets %= 33
        usual = cross_entropy(device, logits, targets, reduction="none")
        targets[[1, 4]] = 12
        losses = cross_entropy(device, logits, targets, ignore_index=12, reduction="none")
        counted_rows = np.flatnonzero(targets != 12)
        assert not np.delete(losses, counted_rows).any()
        assert np.array_equal(losses[counted_rows], usual[counted_rows])
        mean = cross_entropy(device, logits, targets, ignore_index=12)
        assert np.isclose(mean[0], losses.sum() / len(counted_rows), rtol=1e-6)


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others(TYPES), ids=str)
def test_large_logits(device: AnyDevice, element: Type) -> None:
    largest = {f32: 1.5e38, f16: 65504.0, bf16: 1.5e38}[element]
    x = np.zeros((5, 70))
    x[0, 3], x[1, :], x[2, 10], x[3, 0], x[4] = 1e4, largest, largest, -largest, -largest
    logits, targets = stored(x, element), np.array([3, 5, 11, 0, 69], np.int32)
    exact = losses64(numbers(logits, element), targets)
    memory, losses = device.upload(logits.copy()), np.empty(5, np.float32)
    device.download(
        cross_entropy(device, memory, targets, reduction="none", gradient=memory), losses
    )
    assert np.allclose(losses, exact, rtol=1e-6, atol=1e-6)
    slopes = np.empty_like(logits)
    device.download(memory, slopes)
    exact = gradient64(numbers(logits, element), targets)
    assert np.abs(numbers(slopes, element) - exact).max() <= UNIT[element]


@pytest.mark.crossed("columns", "where")
@pytest.mark.parametrize("columns", [9, 64, 1000])
@pytest.mark.parametrize("where", present("cpu", "emulated:ptx", "cuda"))
def test_non_finite_values_stay_in_their_row(where: str, columns: int) -> None:
    from tests.conftest import open_for_test

    with open_for_test(where) as device:
        logits, targets = case(8, columns, f32)
        targets[:] = 5
        usual, slopes = cross_entropy(device, logits, targets, reduction="none"), logits.copy()
        logits[1, 5], logits[2, 3], logits[3, 2], logits[4] = np.nan, np.nan, np.inf, -np.inf
        logits[5, 5] = logits[6, 0] = -np.inf
        losses = cross_entropy(device, logits, targets, reduction="none", gradient=slopes)
        total = cross_entropy(device, logits, targets)
    assert np.isnan(losses[1:5]).all()
    assert np.isnan(slopes[1:5]).all()
    assert np.array_equal(losses[[0, 7]], usual[[0, 7]])
    assert np.isfinite(slopes[[0, 5, 6, 7]]).all()
    # A target that cannot be: the loss is infinite, and its slope that of any other.
    assert losses[5] == np.inf
    assert slopes[5, 5] == -1
    assert abs(losses[6] - losses64(logits[6:7, 1:], targets[6:7] - 1)[0]) < 1e-5
    assert slopes[6, 0] == 0
    assert np.isnan(total[0])


def test_long_rows_that_start_with_minus_infinity() -> None:
    """The running maximum is minus infinity, and the target's logit may be."""
    with open_device("cpu") as device:
        x = np.full((1, 200), -np.inf, np.float32)
        x[0, 150:] = 1
        loss = cross_entropy(device, x, np.array([0], np.int32))
        assert loss[0] == np.inf
        loss = cross_entropy(device, x, np.array([160], np.int32))
        assert np.isclose(loss[0], np.log(50), rtol=1e-6)


# --- targets that are none, bad input


@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_out_of_range_targets_are_rejected(device: AnyDevice, kind: Any) -> None:
    logits, targets = case(6, 33, f32)
    targets[2] = 1
    wrong = targets.astype(kind)
    wrong[3], wrong[5] = 33, np.iinfo(kind).max
    room = Guarded(device, logits)
    with pytest.raises(InputError, match=r"targets\[3\] is 33, and the 33 classes .* 2 such"):
        cross_entropy(device, logits, wrong, gradient=room.memory)
    assert (room.array() == 99).all()
    loss_room = Guarded(device, np.zeros(6, np.float32))
    cross_entropy(
        device,
        logits,
        wrong,
        reduction="none",
        gradient=room.memory,
        check=False,
        out=loss_room.memory,
    )
    losses, slopes = loss_room.array(), room.array()
    assert (losses[[3, 5]] == np.finfo(np.float32).max).all()
    assert not slopes[[3, 5]].any()
    valid_rows = [0, 1, 2, 4]
    assert np.allclose(
        losses[valid_rows], losses64(logits.astype(float), targets)[valid_rows], atol=1e-5
    )


def test_negative_target_is_reported() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    targets = np.array([[0, 1, 2], [3, -1, 3]], np.int32)
    with pytest.raises(InputError, match=r"targets\[1, 1\] is -1"):
        cross_entropy("cpu", x, targets)
    losses = cross_entropy("cpu", x, targets, ignore_index=-1, reduction="none")
    assert np.allclose(losses, np.log(4) * (targets >= 0))


def test_shapes_and_memory() -> None:
    with open_device("cpu") as device:
        none = np.zeros((0, 4), np.float32)
        for reduction in ("mean", "sum"):
            empty = cross_entropy(device, none, np.zeros(0, np.int32), reduction=reduction)
            assert np.array_equal(empty, np.zeros(1, np.float32))
        empty = cross_entropy(device, none, np.zeros(0, np.int32), reduction="none")
        assert empty.shape == (0,)
        half = stored(np.zeros((3, 4)), f16)
        loss = cross_entropy(device, device.upload(half), np.zeros(3, np.int32))
        assert loss.dtype == np.float32
        assert np.allclose(np.asarray(loss), np.log(4))
        # A caller's buffers are as they were.
        logits = device.upload(half)
        cross_entropy(device, logits, np.zeros(3, np.int32), reduction="sum")
        assert not np.asarray(logits).any()


X = np.zeros((4, 6), np.float32)
ROWS = np.zeros(4, np.int32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: cross_entropy(d, X.astype(np.float64), ROWS), "logits is of float64"),
        (lambda d: cross_entropy(d, X.T, ROWS), "logits has strides"),
        (lambda d: cross_entropy(d, X, ROWS.astype(np.int64)), "targets is of int64; indices are"),
        (lambda d: cross_entropy(d, X, ROWS.astype(np.float32)), "targets is of float32"),
        (lambda d: cross_entropy(d, X, ROWS[:3]), r"targets must be of shape \(4,\), .* not \(3,"),
        (lambda d: cross_entropy(d, X[0], ROWS), "logits must have the axes rows and classes"),
        (lambda d: cross_entropy(d, X[:, :0].copy(), ROWS), "a row has a class at least"),
        (lambda d: cross_entropy(d, X, ROWS, ignore_index=1 << 32), "ignore_index must be a whole"),
        (lambda d: cross_entropy(d, X, ROWS, reduction="max"), "reduction must be mean, sum or"),
        (lambda d: cross_entropy(d, X, ROWS, gradient=X[:2].copy()), "gradient must be f32 of"),
        (lambda d: cross_entropy(d, X, ROWS, gradient=X.astype(np.float16)), "gradient must be"),
        (lambda d: cross_entropy(d, X, ROWS, gradient_scale="1"), "gradient_scale must be a num"),
        (lambda d: cross_entropy(d, X, ROWS, out=X[0]), r"out must be f32 of shape \(1,\)"),
        (
            lambda d: cross_entropy(d, X, ROWS, reduction="none", out=ROWS.astype(np.float16)),
            r"out must be f32 of shape \(4,\), not f16",
        ),
    ],
)
def test_bad_input(call: Callable[[Any], Any], message: str) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match=message):
        call(device)


@pytest.mark.parametrize("beyond", [None, 5.0])
def test_idle_target_count_is_detected(
    beyond: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid targets never pass as valid, nor valid ones as invalid."""
    launch = CpuDevice.launch

    def faulty(device: CpuDevice, kernel: Any, groups: Any, *arguments: Any) -> None:
        if kernel.name != "count_targets":
            launch(device, kernel, groups, *arguments)
        elif beyond is not None:
            arguments[-1].view(np.float32)[:] = beyond

    monkeypatch.setattr(CpuDevice, "launch", faulty)
    logits = np.ones((3, 4), np.float32)
    with pytest.raises(DeviceError, match=r"without computing how many targets are no classes"):
        cross_entropy("cpu", logits, np.zeros(3, np.int32), gradient=logits)
    assert (logits == 1).all()
