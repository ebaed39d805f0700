"""Attention of few queries: what `attention` is held to, in any number of parts of the keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import Machine, bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import attention_decode
from quod.tensor.flash_attention.decode.kernel import decode_kernel
from quod.tensor.flash_attention.decode.lines import DecodeForm
from quod.tensor.flash_attention.decode.plan import plan_decode, plan_parts
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.thorough import one_and_others
from tests.tensor.attention_model import NONE, Case, exact, made
from tests.tensor.numbers import TYPES
from tests.tensor.test_attention import check, run

Shape = tuple[int, int, int, tuple[int, int]]

EDGES: list[Shape] = [
    (1, 1, 1, (1, 1)), (1, 129, 8, (4, 2)), (3, 127, 40, (3, 1)), (5, 0, 8, (2, 1)),
    (2, 64, 64, (8, 1)), (17, 63, 33, (2, 2)), (1, 65, 256, (1, 1)),
]  # fmt: skip
ON_CORES: list[Shape] = [
    (1, 1, 8, (1, 1)), (1, 129, 64, (9, 1)), (3, 127, 40, (3, 1)), (2, 65, 256, (5, 1)),
    (1, 200, 128, (16, 2)), (6, 63, 72, (3, 1)), (2, 0, 64, (1, 1)), (2, 20, 33, (2, 1)),
    (1, 70, 36, (2, 1)),
]  # fmt: skip
"""Rows of one tile and of two, heads that end within a line of a subgroup, and for no cores."""


def decode(parts: int | None) -> Callable[..., Any]:
    return partial(attention_decode, parts=parts)


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others(TYPES, always=[f32]), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    some = EDGES[1:3] if device.kind == "webgpu" else EDGES if element is f32 else EDGES[2:4]
    for number, shape in enumerate(some):
        case = made(element, *shape, causal=number % 2 == 1)
        check(device, case, element, decode((2, None, 1, 3)[number % 4]))


@pytest.mark.crossed("element", "name")
@pytest.mark.parametrize("element", one_and_others(TYPES, always=[f32]), ids=str)
@pytest.mark.parametrize("name", one_and_others(["emulated", "emulated:ptx"]))
def test_edge_shapes_on_emulated_gpus(name: str, element: Type) -> None:
    with open_device(name) as device:
        for number, shape in enumerate(EDGES[1:6] if element is f32 else ON_CORES):
            case = made(element, *shape, 1, causal=number % 2 == 1)
            check(device, case, element, decode(1 + number % 3))


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    for size, parts in ((1, 1), (17, 2)):
        case = made(f32, 5, 40, size, (2, 1), causal=True, lengths=[0, 39])
        check(checked_cpu, case, f32, decode(parts))


@pytest.mark.crossed("device", "parts", "causal")
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_lengths(device: AnyDevice, causal: bool, parts: int) -> None:
    """Some keys, none, and more than there are; keys beyond are not looked at."""
    _check_lengths(device, f32, causal, parts)


@pytest.mark.parametrize("name", one_and_others(["emulated", "emulated:ptx"]))
def test_lengths_on_tensor_cores(name: str) -> None:
    with open_device(name) as device:
        _check_lengths(device, bf16, True, 2)


def _check_lengths(device: AnyDevice, element: Type, causal: bool, parts: int) -> None:
    case = made(element, 2, 70, 16, (4, 2), 4, causal=causal, lengths=[41, 0, 1 << 30, -1])
    clean = case._replace(lengths=np.array([41, 0, 70, 70], np.int32))
    dirty = case._replace(k=case.k.copy(), v=case.v.copy())
    for tensor in (dirty.k, dirty.v):
        for sequence, length in ((0, 41), (1, 0)):
            tensor[sequence, :, length:].view(np.uint8)[:] = 0xFF
    output, logs = run(device, dirty, decode(parts))
    wanted, wanted_logs = run(device, clean, decode(parts))
    assert output.tobytes() == wanted.tobytes()
    assert logs.tobytes() == wanted_logs.tobytes()
    assert (output[1] == 0).all()
    assert (logs[1] == NONE).all()
    check(device, clean, element, decode(parts))


def test_any_number_of_splits(device: AnyDevice) -> None:
    """More than there are keys, too: those without one weigh nothing."""
    case = made(f32, 2, 150, 16, (2, 1), causal=True)
    for parts in (2, 5, 64, 512):
        check(device, case, f32, decode(parts))


def test_queries_before_all_keys_attend_to_none(device: AnyDevice) -> None:
    for parts in (1, 2):
        output, logs = run(device, made(f32, 9, 4, 8, causal=True), decode(parts))
        assert (output[..., :5, :] == 0).all()
        assert (logs[..., :5] == NONE).all()
        assert (output[..., 5:, :] != 0).all()


def test_the_largest_of_large_logits(device: AnyDevice) -> None:
    """Logits of 1e4 and -1e4, and one part has the largest: its value is the result, exactly."""
    random = np.random.default_rng(4)
    keys = np.full((1, 90, 16), -100, np.float32)
    values = random.normal(0, 1, (1, 90, 16)).astype(np.float32)
    for chosen, parts in ((0, 1), (50, 3), (89, 3)):
        chosen_keys = keys.copy()
        chosen_keys[0, chosen] = 100
        queries = np.full((1, 1, 16), 6.25, np.float32)
        output, logs = run(device, Case(queries, chosen_keys, values, 1.0), decode(parts))
        assert np.array_equal(output[0, 0], values[0, chosen])
        assert np.allclose(logs, 1e4)


def test_equal_weights_average_the_values(device: AnyDevice) -> None:
    """64 keys that are alike in two parts: each weight is 1/64 exactly."""
    values = np.eye(64, dtype=np.float32)[None]
    for parts in (1, 2):
        case = Case(np.zeros((1, 1, 64), np.float32), np.ones_like(values), values, 1.0)
        output, _ = run(device, case, decode(parts))
        assert (output == 1 / 64).all()


def test_small_scales_keep_masked_keys_hidden(device: AnyDevice) -> None:
    case = made(f32, 3, 40, 8, causal=True)._replace(scale=1e-37)
    for parts in (1, 2):
        check(device, case, f32, decode(parts))


def test_two_runs(device: AnyDevice) -> None:
    case = made(f16, 2, 100, 24, (2, 1), causal=True)
    for first, second in zip(
        run(device, case, decode(3)), run(device, case, decode(3)), strict=True
    ):
        assert first.tobytes() == second.tobytes()


def test_non_finite_values_stay_in_their_row() -> None:
    with open_device("cpu") as device:
        case = made(f32, 4, 70, 12)
        case.q[0, 0, 3, 5] = np.nan
        output, logs = run(device, case, decode(2))
        assert np.isnan(output[0, 0, 3]).all()
        assert np.argwhere(np.isnan(logs)).tolist() == [[0, 0, 3]]
        assert np.isfinite(np.delete(output[0, 0], 3, 0)).all()
        assert np.isfinite(output[1]).all()


def test_leading_axes_and_result_shapes() -> None:
    q, k = np.ones((2, 3, 4, 1, 6), np.float32), np.ones((2, 3, 2, 7, 6), np.float32)
    assert attention_decode("cpu", q, k, k).shape == q.shape
    assert (attention_decode("cpu", q, k, k, lengths=np.full((2, 3), 2, np.uint32)) == 1).all()
    assert attention_decode("cpu", q[:, :0], k[:, :0], k[:, :0]).shape == (2, 0, 4, 1, 6)
    assert attention_decode("cpu", q[..., :0, :], k, k).shape == (2, 3, 4, 0, 6)
    wanted, _ = exact(made(f32, 4, 9, 8, causal=True), f32)
    case = made(f32, 4, 9, 8)
    assert np.allclose(attention_decode("cpu", *case[:3]), wanted, atol=1e-6)


# --- plans


def _gpu(multiprocessors: int, shared_bytes: int = 227 << 10) -> Any:
    features = frozenset({"subgroup", "tensor_cores", "async_copies"})
    machine = Machine("ptx", 128, features, shared_bytes, subgroup_size=32)
    return SimpleNamespace(
        lanes=128, multiprocessors=multiprocessors, machine=lambda lanes: machine
    )


def test_splits_fill_the_device() -> None:
    device = _gpu(132)
    plan = plan_decode(device, f16, 128, 4)
    assert plan.cores
    for groups, keys in ((1, 1 << 17), (8, 8192), (32, 65536), (100, 4096)):
        parts = plan_parts(device, plan, groups, keys)
        assert keys // parts >= 128
        assert groups * parts >= 132 or keys // (parts + 1) < 128
    assert [plan_parts(device, plan, groups, 8192) for groups in (264, 5280)] == [1, 1]
    assert [plan_parts(device, plan, 8, keys) for keys in (0, 1, 255)] == [1, 1, 1]
    assert plan_parts(device, plan, 1, 1 << 30) <= 512


@pytest.mark.parametrize("element", [f32, bf16], ids=str)
def test_plans_cover_a_full_row(element: Type) -> None:
    for size in (1, 2, 8, 33, 40, 64, 96, 128, 130, 255, 256):
        for rows in (1, 3, 8, 9, 64):
            plan = plan_decode(_gpu(2), element, size, rows)
            assert 0 <= plan.padded - size < plan.across * plan.vector
            assert plan.full == (plan.padded == size)
            assert size % plan.vector == 0
            assert plan.rows <= 2 * rows or plan.cores


def test_plans_fit_shared_memory() -> None:
    for size, room, lanes in ((128, 227, 128), (128, 48, 64), (256, 99, 64), (256, 48, 32)):
        plan = plan_decode(_gpu(1, room << 10), f16, size, 4)
        assert (plan.cores, plan.lanes) == (True, lanes)
    for size in (33, 256):
        plan = plan_decode(_gpu(1, 16 << 10), f16, size, 4)
        assert not plan.cores
        assert plan.shared_bytes(f16) <= 16 << 10


@pytest.mark.parametrize(
    ("arch", "size", "rows"),
    one_and_others([("sm_80", 64, 4), ("sm_90a", 128, 16), ("sm_120", 128, 1)]),
)
def test_keys_and_values_are_prefetched_one_step(arch: str, size: int, rows: int) -> None:
    """All of a step at once, 16 bytes a copy, and nothing of it waits in local memory."""
    plan = plan_decode(_gpu(1), bf16, size, rows)
    form = DecodeForm(lengths=True, split=True)
    machine = ptx_machine(plan.lanes, arch)
    traced = decode_kernel(bf16, form).trace(machine, element=bf16, plan=plan, form=form)
    cubin, log = assemble(ptx.emit(traced, machine), arch)
    assert not usage(log).spill_store_bytes
    counts = opcodes(sass(cubin))
    # The first step, and those of a loop with masks and of one without.
    copies = 2 * 16 * size * 2 // (16 * 32)
    assert counts["LDGSTS"] == 3 * copies
    assert counts["HMMA"] == 2 * (2 * (size // 16) + size // 8)


# --- bad input

Q, K = np.ones((2, 4, 1, 8), np.float32), np.ones((2, 2, 7, 8), np.float32)
ROWS = np.ones((2, 4, 1), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_decode("cpu", Q[0, 0], K, K), "q must have at least the axes"),
        (lambda: attention_decode("cpu", Q, K[:1], K), "k must be f32 of shape"),
        (lambda: attention_decode("cpu", Q, K, Q), "v must be f32 of shape"),
        (lambda: attention_decode("cpu", Q, K, K, parts=0), "parts must be"),
        (lambda: attention_decode("cpu", Q, K, K, parts=513), "parts must be"),
        (lambda: attention_decode("cpu", Q, K, K, parts=1.0), "parts must be"),
        (lambda: attention_decode("cpu", Q, K, K, scale=-1.0), "scale must be at least"),
        (lambda: attention_decode("cpu", Q, K, K, lengths=np.ones(2)), "lengths is of float64"),
        (lambda: attention_decode("cpu", Q, K, K, log_sums=ROWS[0]), "log_sums must be f32"),
        (lambda: attention_decode("cpu", Q, K, K, out=K), "out must be f32 of shape"),
        (lambda: attention_decode("cpu", Q, K, K, out=Q), "out is in the memory of q"),
        (lambda: attention_decode("cpu", Q, K, K, log_sums=Q.reshape(-1)[:8].reshape(2, 4, 1)),
         "log_sums is in the memory of q"),
    ],
)  # fmt: skip
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
