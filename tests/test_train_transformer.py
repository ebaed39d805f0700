"""The transformer of the examples: gradients against float64, losses on every device, learning."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.cpu.device import CpuDevice
from tests.conftest import open_for_test
from tests.support.devices import present

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLE = REPOSITORY / "examples" / "train_transformer"
TOLERANCE = 1e-4
"""Tolerance of a loss, from one device to another, in the first steps; docs/tensors.md says so."""

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[None]:
    """The example's modules are found as its scripts find them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        yield
    for name in ("reversal", "transformer", "training", "train"):
        sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def tiny() -> Any:
    """Sizes that are no powers of two, of two layers."""
    return module("transformer").Shape(
        symbols=7, tokens=6, width=12, heads=2, hidden=10, layers=2, batch=3
    )


def training(device: Any, shape: Any, seed: int = 0) -> Any:
    return module("training").Training(device, shape, seed)


def down(device: Any, buffer: Any, dtype: Any = np.float32) -> Array:
    values = np.empty(buffer.nbytes // 4, dtype)
    device.download(buffer, values)
    return values


# --- the model in float64


class Model64:
    """The forward pass, sequence by sequence and head by head, and its mean loss."""

    def __init__(self, shape: Any, values: Array) -> None:
        self.shape, self.tensors = shape, {}
        self.places, first = {}, 0
        for name, sizes, _ in shape.parameters():
            count = math.prod(sizes)
            self.places[name] = slice(first, first + count)
            self.tensors[name] = values[first : first + count].astype(np.float64).reshape(sizes)
            first += -(-count // 64) * 64

    def logits(self, tokens: Array) -> Array:
        return np.concatenate([self.of_sequence(row) for row in tokens])

    def of_sequence(self, tokens: Array) -> Array:
        t = self.tensors
        x = t["symbols"][tokens] + t["places"]
        for layer in range(self.shape.layers):
            x = norm(x + self.attended(x, f"{layer}."), t[f"{layer}.attended"])
            gate, up = x @ t[f"{layer}.gate"], x @ t[f"{layer}.up"]
            x = norm(x + (gate / (1 + np.exp(-gate)) * up) @ t[f"{layer}.down"], t[f"{layer}.made"])
        logits: Array = x @ t["logits"]
        return logits

    def attended(self, x: Array, prefix: str) -> Array:
        heads, total = self.shape.heads, np.zeros_like(x)
        weights, mixed = self.tensors[f"{prefix}qkv"], self.tensors[f"{prefix}mixed"]
        for head in range(heads):
            q, k, v = (x @ weights[part * heads + head].T for part in range(3))
            scores = q @ k.T / math.sqrt(self.shape.size)
            scores[np.triu_indices(len(x), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            total += (shares / shares.sum(axis=1, keepdims=True)) @ v @ mixed[head]
        return total

    def loss(self, tokens: Array, targets: Array) -> float:
        logits, wanted = self.logits(tokens), targets.reshape(-1)
        counted = wanted != -100
        rows = logits[counted]
        losses = np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(rows)), wanted[counted]]
        return float(losses.mean())


def norm(x: Array, weight: Array) -> Array:
    normalised: Array = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight
    return normalised


def test_gradients_match_the_float64_model() -> None:
    shape, random = tiny(), np.random.default_rng(3)
    with open_device("cpu") as device:
        training_run = training(device, shape)
        # Norms that begin as ones would not tell whether they are there.
        values = down(device, training_run.model.parameters)
        values += random.standard_normal(len(values), np.float32) / 5 * (values != 0)
        device.upload(values, into=training_run.model.parameters)
        (loss,) = training_run.losses(1)
        gradients, logits = down(device, training_run.model.gradients), training_run.logits()
    tokens, targets = module("reversal").batch_of(1, shape.batch, shape.tokens // 2, shape.symbols)
    model = Model64(shape, values)
    assert np.allclose(logits, model.logits(tokens), rtol=1e-5, atol=1e-5)
    assert loss == pytest.approx(model.loss(tokens, targets), rel=1e-6)
    for name, tensor in model.tensors.items():
        gradient = gradients[model.places[name]].reshape(tensor.shape)
        assert np.abs(gradient).max() > 1e-6
        for way in random.normal(0, 1, (3, *tensor.shape)):
            ends = []
            for step in (1e-6, -1e-6):
                model.tensors[name] = tensor + step * way
                ends.append(model.loss(tokens, targets))
            model.tensors[name] = tensor
            exact = (ends[0] - ends[1]) / 2e-6
            size = np.linalg.norm(gradient) * np.linalg.norm(way)
            assert abs((gradient * way).sum() - exact) <= 2e-5 * size, name


def test_later_tokens_do_not_change_earlier_logits() -> None:
    shape = tiny()
    with open_device("cpu") as device:
        model = module("transformer").Transformer(device, shape)
        tokens = np.zeros((shape.batch, shape.tokens), np.int32)
        logits = []
        for last in (0, 5):
            tokens[:, 4:] = last
            device.upload(tokens.reshape(-1), into=model.tokens)
            model.step(device)  # at rates of 0
            logits.append(down(device, model.logits).reshape(*tokens.shape, -1))
    assert np.array_equal(logits[0][:, :4], logits[1][:, :4])
    assert (logits[0][:, 4:] != logits[1][:, 4:]).any()


def test_padding_between_tensors_stays_zero() -> None:
    shape = tiny()
    with open_device("cpu") as device:
        training_run = training(device, shape)
        before = down(device, training_run.model.parameters)
        list(training_run.losses(3))
        after = down(device, training_run.model.parameters)
    within = np.zeros(len(after), bool)
    for place in Model64(shape, after).places.values():
        within[place] = True
    assert not after[~within].any()
    assert (after[within] != before[within]).mean() > 0.99


# --- devices


def small() -> Any:
    """Sizes of which a driver in software compiles few kernels."""
    return module("transformer").Shape(
        symbols=8, tokens=4, width=8, heads=2, hidden=16, layers=1, batch=4
    )


def start(device: Any, steps: int, seed: int = 0) -> tuple[list[float], bytes]:
    """The losses of some steps, and the parameters then."""
    training_run = training(device, small(), seed)
    return list(training_run.losses(steps)), down(device, training_run.model.parameters).tobytes()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name == "webgpu" else ())
        for name in present("cpu", "cpu:scalar", "webgpu", "cuda")
    ],
)
def test_losses_match_the_cpu_and_are_reproducible(name: str) -> None:
    with open_for_test(name) as device:
        losses, parameters = start(device, 8)
        assert start(device, 8) == (losses, parameters)
        assert start(device, 8, seed=1) != (losses, parameters)
    with open_device("cpu") as device:
        assert losses == pytest.approx(start(device, 8)[0], rel=TOLERANCE)


@pytest.mark.thorough
def test_a_step_on_an_emulated_gpu() -> None:
    results = []
    for name in ("cpu", "emulated:ptx"):
        with open_device(name) as device:
            training_run = training(device, small())
            (loss,) = training_run.losses(1)
            results.append((loss, down(device, training_run.model.gradients)))
    assert results[1][0] == pytest.approx(results[0][0], rel=TOLERANCE)
    assert np.allclose(results[1][1], results[0][1], rtol=1e-4, atol=1e-6)


def test_steps_allocate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a step takes memory, or compiles")

    with open_device("cpu") as device:
        training_run = training(device, tiny())
        for what in ("allocate", "upload", "compile", "launch"):
            monkeypatch.setattr(CpuDevice, what, refuse)
        assert len(list(training_run.losses(2))) == 2


# --- the task and the script


def test_batches() -> None:
    reversal = module("reversal")
    tokens, targets = reversal.batch_of(5, 40, 4, 9)
    assert tokens.shape == targets.shape == (40, 8)
    assert tokens.dtype == targets.dtype == np.int32
    assert (targets[:, :4] == -100).all()
    assert np.array_equal(targets[:, 4:], tokens[:, 3::-1])
    assert (tokens[:, 4] == 8).all()
    assert np.array_equal(tokens[:, 5:], targets[:, 4:7])
    assert set(tokens[:, :4].reshape(-1).tolist()) == set(range(8))
    assert len({row.tobytes() for row in tokens[:, :4]}) == 40
    again = np.concatenate([reversal.batch_of(n, 20, 4, 9)[0] for n in (10, 11)])
    assert np.array_equal(again, tokens)
    # The mixing of 32 bits at the end of MurmurHash3, of 1 and of 2.
    assert [hex(n) for n in reversal.hashed(np.array([0, 1, 2], np.uint32))] == [
        "0x0", "0x514e28b7", "0x30f4c306"
    ]  # fmt: skip


def test_accuracy() -> None:
    logits = np.eye(3)[[0, 1, 2, 2]]
    assert module("reversal").accuracy(logits, np.array([0, 2, -100, 2])) == 2 / 3


@pytest.mark.thorough
def test_training_reduces_the_loss() -> None:
    with open_device("cpu") as device:
        training_run = training(device, module("transformer").Shape())
        losses = list(training_run.losses(100))
        right = module("reversal").accuracy(training_run.logits(), training_run.targets)
    assert losses[0] > 2.5
    assert losses[-1] < 0.02
    assert right == 1.0


@pytest.mark.thorough
def test_script_plots_the_training_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = module("train")
    drawn = tmp_path / "curve.png"
    words = ["--device", "cpu", "cpu:scalar", "--steps", "3", "--plot", str(drawn)]
    monkeypatch.setattr("sys.argv", ["train.py", *words])
    script.main()
    said = capsys.readouterr().out
    apart = re.search(r"losses of cpu:scalar differ from those of cpu by at most (\S+)", said)
    assert apart is not None
    assert float(apart[1]) < TOLERANCE
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert (REPOSITORY / "docs" / "train_transformer.png").stat().st_size < 100_000


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--steps", "0"], 2, "'0' is no number from 1 on"),
        (["--seed", "-1"], 2, "'-1' is no number from 0 on"),
        (["--plot", "nowhere/curve.png"], 2, "is no .png, .svg or .pdf in a folder"),
        (["--plot", "curve.txt"], 2, "is no .png, .svg or .pdf in a folder"),
        (["--plot", "folder.png"], 2, "is no .png, .svg or .pdf in a folder"),
        (["--plot", "full.png", "--steps", "1"], 5, "full.png: No space left on device"),
        (["--device", "sun"], 7, "no device 'sun'"),
    ],
)
def test_script_reports_invalid_arguments(
    words: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    script = module("train")
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    Path("full.png").symlink_to("/dev/full")
    monkeypatch.setattr("sys.argv", ["train.py", *words])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == code
    assert message in capsys.readouterr().err
