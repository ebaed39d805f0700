"""Tensor functions in quod bench: each kind, its peers, and rejected arguments."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.bench.measure import ceilings, plot
from quod.bench.measure.roofline import Roofline
from quod.bench.peers import tensors as tensor_peers
from quod.bench.tensors import calls as tensors
from quod.bench.tensors.operations import OPERATIONS
from quod.cli import entry
from quod.device import open_device
from quod.device.limits import Limits
from quod.device.runtime.recording import Launch, Recording
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.tensor import rms_norm, silu
from tests.support.thorough import one_and_others

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]
KINDS = [(subject, kind) for subject, rows in OPERATIONS.items() for kind in rows]
FIRST = [(subject, next(iter(rows))) for subject, rows in OPERATIONS.items()]


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_MAX_SETS", 3)
    monkeypatch.setattr(tensors, "_MIN_CALLS", 4)
    monkeypatch.setattr(tensors, "_MOVED", 1)
    monkeypatch.setattr(tensors, "_POOL", 4093)


@pytest.mark.parametrize(("subject", "kind"), one_and_others(KINDS, FIRST))
def test_each_kind(subject: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    operation = OPERATIONS[subject][kind]
    of = {2: (33, 70), 3: (33, 70, 40), 4: (2, 3, 33, 40), 5: (2, 4, 2, 33, 40)}[operation.axes]
    shape = "x".join(map(str, of))
    words = ["bench", subject, "--kind", kind, "--shape", shape, "--shape", "8", "--threads", "1"]
    against = ["--against", "numpy"] if operation.numpy else []
    assert entry.run([*words, *against, *ONCE]) == 0
    rows = json.loads(capsys.readouterr().out)
    sizes = [*operation.inputs(of), *[operation.output(of)] * max(1, len(operation.stored))]
    widths = {"int8": [1, 1, 4], "e4m3": [1, 1, 2]}.get(operation.dtype, [4] * len(sizes))
    moved = sum(width * int(np.prod(size)) for width, size in zip(widths, sizes, strict=True))
    assert [row["parameters"]["shape"] for row in rows] == [shape, "x".join("8" * operation.axes)]
    assert rows[0]["parameters"] | {"MB": round(moved / 1e6, 3), "threads": 1} == {
        "kind": kind, "dtype": "f32", "calls": 3, **rows[0]["parameters"]
    }  # fmt: skip
    assert all(row["median"] > 0 and row["unit"] == "us/call" and row["code"] for row in rows)
    if operation.numpy:
        assert all(" on 1 thread" in row["peer"] for row in rows)
        assert ("openblas" in rows[0]["peer"]) <= (subject == "gemm")


@pytest.mark.parametrize("dtype", one_and_others(["f16", "bf16"]))
@pytest.mark.parametrize("subject", OPERATIONS)
def test_short_types(subject: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", subject, "--shape", "40", "--dtype", dtype, *ONCE]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["parameters"]["dtype"] == dtype
    assert row["subject"] == subject


def test_gpu_calls_run_sequentially(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings: list[Recording] = []

    def recording(*arguments: Any) -> Recording:
        recordings.append(Recording(*arguments))
        return recordings[-1]

    monkeypatch.setattr(tensors, "Recording", recording)
    options = ("emulated:ptx", None, "norm", ["rms"], ["2x64"], "f32", None)
    (case,) = tensors.cases(*options)
    assert (case.operations, case.parameters["calls"]) == (6, 6)
    assert [step.after for step in recordings[0].steps] == [(), (0,), (1,), (2,), (3,), (4,)]
    # Three sets of tensors, in turn.
    outs = [step.arguments[-1] for step in recordings[0].steps if isinstance(step, Launch)]
    assert [outs.index(out) for out in outs] == [0, 1, 2, 0, 1, 2]
    assert case.traced is not None
    timeline = Timeline()
    case.traced(timeline)
    assert sum(row.bytes for row in timeline.table() if row.parent is None) == 6 * 4 * (256 + 64)


def test_work_of_several_launches_is_the_maximum() -> None:
    (case,) = tensors.cases("emulated:ptx", None, "loss", None, ["70x33"], "f32", None)
    assert case.traced is not None
    timeline = Timeline()
    case.traced(timeline)
    moved = {row.name: row.bytes for row in timeline.table() if row.parent is None}
    assert sum(moved.values()) == 6 * 4 * (2 * 70 * 33 + 70)
    assert [name for name, count in moved.items() if count] == ["cross_entropy_gradient_f32"]


def test_in_place_changes_do_not_reach_peer_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def peer_of(*arguments: Any) -> tensor_peers.Peer:
        seen.append([array.copy() for array in arguments[3][0]])
        return tensor_peers.Peer({"numpy": lambda: seen.append(arguments[3][0])})

    monkeypatch.setattr(tensors, "peer_of", peer_of)
    (case,) = tensors.cases("cpu", "numpy", "adamw", None, ["9x8"], "bf16", 1)
    case.run()
    case.peers["numpy"]()
    assert [array.dtype for array in seen[0]] == [np.uint16, np.uint16, np.float32, np.float32]
    assert all(np.array_equal(*pair) for pair in zip(*seen, strict=True))
    assert (seen[0][3] >= 0).all()


def test_a_wrong_function_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = OPERATIONS["activation"]["silu"]

    def nearly(device: Any, x: Any, *, out: Any) -> None:
        silu(device, x, out=out)
        array = np.empty((40, 40), np.float32)
        device.download(out, array)
        array[-1, 7] *= 1 + 3e-5
        device.upload(array, into=out)

    monkeypatch.setitem(OPERATIONS["activation"], "silu", replace(right, run=nearly))
    assert entry.run(["bench", "activation", "--shape", "40", *ONCE]) == QuodError.exit_code
    assert "this result is off by up to" in capsys.readouterr().err


def stand_in(calls: list[object], wrong: float = 1.0) -> SimpleNamespace:
    """PyTorch as far as `quod bench` asks it, with RMS norm alone."""

    class Tensor:
        def __init__(self, array: Any) -> None:
            self.array, self.shape = array, array.shape

        def to(self, where: str) -> Tensor:
            calls.append(where)
            return self

        def view(self, kind: str) -> Tensor:
            calls.append(kind)
            return self

        def cpu(self) -> Tensor:
            return self

        def numpy(self) -> Any:
            return self.array

    def norm(x: Tensor, shape: Any, weight: Tensor, epsilon: float) -> Tensor:
        calls.append("norm")
        normalised = rms_norm("cpu", x.array, weight.array, epsilon=epsilon)
        return Tensor((normalised * wrong).astype(normalised.dtype))

    graph = SimpleNamespace(replay=lambda: calls.append("replay"))
    cuda = SimpleNamespace(
        is_available=lambda: True, CUDAGraph=lambda: graph, graph=nullcontext,
        synchronize=lambda: calls.append("synchronize"),
    )  # fmt: skip
    matmul = SimpleNamespace(allow_tf32=True)
    return SimpleNamespace(
        from_numpy=Tensor, cuda=cuda, nn=SimpleNamespace(functional=SimpleNamespace(rms_norm=norm)),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul)), __version__="2.0",
        bfloat16="bfloat16", uint16="uint16", set_num_threads=lambda n: calls.append(n),
    )  # fmt: skip


def measured_with(torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, device: str) -> Any:
    monkeypatch.setitem(sys.modules, "torch", torch)
    threads = 1 if device == "cpu" else None
    return next(tensors.cases(device, "torch", "norm", ["rms"], ["3x64"], "f32", threads))


def test_pytorch_on_a_gpu_is_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    torch = stand_in(calls)
    case = measured_with(torch, monkeypatch, "emulated:ptx")
    # Two tensors of three sets; one call whose result is looked at, and those of the graph.
    assert calls == ["cuda"] * 6 + ["norm"] * 7
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert "one CUDA graph" in case.peer_note
    case.peers["torch"]()
    assert calls[-2:] == ["replay", "synchronize"]


def test_pytorch_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    case = measured_with(stand_in(calls), monkeypatch, "cpu")
    assert calls == ["cpu"] * 6 + ["norm", 1]
    case.peers["torch"]()
    assert calls[-3:] == ["norm"] * 3
    assert "on 1 threads" in case.peer_note


def test_pytorch_with_different_results_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QuodError, match="PyTorch's result is off by"):
        measured_with(stand_in([], wrong=1.01), monkeypatch, "emulated:ptx")


def test_pytorch_s_attention_of_one_query() -> None:
    """Query heads share key heads in PyTorch too; PyTorch has no paged attention."""

    def attention(*operands: Any, enable_gqa: bool) -> tuple[Any, ...]:
        assert enable_gqa
        return operands

    functional = SimpleNamespace(scaled_dot_product_attention=attention)
    torch = SimpleNamespace(nn=SimpleNamespace(functional=functional))
    assert OPERATIONS["decode"]["plain"].torch(torch, 1, 2, 3) == (1, 2, 3)
    with pytest.raises(TypeError, match="paged keys"):
        OPERATIONS["decode"]["paged"].torch(torch, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("device", ["cpu", "emulated:ptx"])
def test_copy_moves_the_same_number_of_bytes(device: str) -> None:
    (case,) = tensors.cases(device, "copy", "decode", None, ["1x2x1x40x8"], "f32", None)
    case.peers["copy"]()
    assert case.peer_note == "moves as many bytes"


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1e9, 1e12, "by decree", {"f32": 1e9})
    operation, check = OPERATIONS["softmax"]["softmax"], None
    with open_device("emulated:ptx") as device:
        for work, seconds in (((2000, 0), 2e-6), ((2000, 5000), 5e-6)):
            monkeypatch.setattr(type(device), "throughput_limits", lambda _self: limits)
            peer = tensor_peers.peer_of("limit", device, operation, [], 10, "f32", work, check)
            assert peer.runs["limit"]() == pytest.approx(10 * seconds)
            assert peer.note == "by decree"
        peer = tensor_peers.peer_of("limit", device, operation, [], 10, "f16", (1, 1), check)
        assert "in f16 is unknown" in peer.absent["limit"]
        monkeypatch.setattr(type(device), "throughput_limits", lambda _self: None)
        peer = tensor_peers.peer_of("limit", device, operation, [], 10, "f32", (1, 0), check)
        assert "are unknown" in peer.absent["limit"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["norm", "--kind", "batch"], "'batch' is not a kind of norm; choose one of layer, rms"),
        (
            ["softmax", "--dtype", "f64"],
            "'f64' is not a type of tensors; choose one of f32, f16, bf16",
        ),
        (["softmax", "--shape", "8x8x8"], "--shape must be 2 sizes such as 8x8, not 8x8x8"),
        (["gemm", "--shape", "8x8"], "--shape must be 3 sizes such as 8x8x8, not 8x8"),
        (["gemm", "--shape", "0"], "not 0"),
        (["decode", "--shape", "1x4x3x64x64"], "3 heads of keys do not divide 4 heads of queries"),
        (["decode", "--shape", "1x2x4x64x64"], "4 heads of keys do not divide 2 heads of queries"),
        (["gemm", "--kind", "int8", "--dtype", "f16"], "the kind int8 always computes in int8"),
        (["gemm", "--shape", "8x-8x8"], "not 8x-8x8"),
        (["gemm", "--shape", "8", "--against", "numpy", "--dtype", "f16"], "only on a CPU, in f32"),
        (["activation", "--kind", "gelu", "--shape", "8", "--against", "numpy"], "the functions"),
        (["gemm", "--shape", "8", "--against", "cublas"], "'cublas' is not a peer"),
    ],
)
def test_unsupported_arguments_are_rejected(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", *words, *ONCE]) == InputError.exit_code
    assert message in capsys.readouterr().err


def test_pytorch_s_optimiser_has_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", stand_in([]))
    (case,) = tensors.cases("cpu", "torch", "adamw", None, ["8"], "f16", 1)
    assert "moments in the type of the parameters" in case.absent["torch"]


@pytest.mark.parametrize("error", [AttributeError("no name"), RuntimeError("no kernel")])
def test_functions_missing_in_pytorch_are_reported(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise error

    torch = stand_in([])
    torch.nn.functional.rms_norm = refuses
    case = measured_with(torch, monkeypatch, "emulated:ptx")
    assert str(error) in case.absent["torch"]


def test_a_roofline_of_floats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    limits = Limits(1e9, 1e12, "by decree", {"f32": 6e10})
    drawn: list[Roofline] = []
    monkeypatch.setattr(ceilings, "described_limits", lambda name: (name, limits))
    monkeypatch.setattr(plot, "draw", lambda figures, *_: drawn.append(figures))
    words = ["bench", "gemm", "--shape", "8", "--plot", str(tmp_path / "a.svg")]
    assert entry.run([*words, *ONCE]) == 0
    (figures,) = drawn
    assert figures.limits == Limits(1e9, 3e10, "by decree")
    assert figures.counted == "of f32"
    (point,) = figures.points
    assert (point.multiply_adds, point.bytes) == (3 * 8**3, 3 * 3 * 8 * 8 * 4)
    # Nothing is known of f16.
    assert entry.run([*words, "--dtype", "f16", *ONCE]) == 0
    assert drawn[1].limits is None
    # Without products there is nothing to place.
    monkeypatch.undo()
    words = ["bench", "softmax", "--shape", "8", "--plot", str(tmp_path / "a.svg")]
    assert entry.run([*words, *ONCE]) == QuodError.exit_code


@pytest.mark.parametrize(("peer", "says"), [("torch", "pytorch.org"), ("numpy", "threadpoolctl")])
def test_peers_that_are_not_installed(
    peer: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(tensor_peers, "import_module", absent)
    words = ["bench", "softmax", "--shape", "8", "--against", peer]
    assert entry.run([*words, *ONCE]) == InputError.exit_code
    assert says in capsys.readouterr().err


def test_threads_option_is_cpu_only(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "softmax", "--device", "emulated:ptx", "--threads", "1"]
    assert entry.run([*words, *ONCE]) == 7
    assert "threads and strategy apply to the device cpu only" in capsys.readouterr().err


def test_small_tensors_keep_no_large_memory() -> None:
    """Many small argument sets must not each keep a copy of all random numbers."""
    shapes = OPERATIONS["adamw"]["adamw"]
    random = tensors._Random(np.random.default_rng(1), (16, 16), "f32")
    for _ in range(20):
        for array in random.of(shapes):
            assert array.shape == (16, 16)
            owner = array if array.base is None else array.base
            assert owner.nbytes <= array.nbytes
    large = tensors._Random(np.random.default_rng(1), (128, 70), "f32").of(shapes)[0]
    assert np.array_equal(large.reshape(-1)[4093 : 2 * 4093], large.reshape(-1)[:4093])
