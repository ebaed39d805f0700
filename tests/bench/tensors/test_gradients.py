"""Gradients of attention and quantised weights times rows as subjects of quod bench."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quod.bench.tensors import attention_gradient, quantised_rows
from quod.cli import entry
from quod.errors import QuodError
from quod.tensor.quantised.reference import dequantise
from tests.support.thorough import one_and_others

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]
SHAPE = ["--shape", "1x2x33x32"]


@pytest.mark.parametrize("dtype", one_and_others(["f32", "f16", "bf16"]))
def test_gradients_full_and_causal(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "attention-gradient", *SHAPE, "--dtype", dtype, *ONCE]) == 0
    full, causal = json.loads(capsys.readouterr().out)
    assert (full["parameters"]["kind"], causal["parameters"]["kind"]) == ("full", "causal")
    for row in (full, causal):
        assert row["unit"] == "us/call"
        assert row["median"] > 0
        assert row["parameters"]["dtype"] == dtype


def test_a_gradient_that_is_wrong_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        attention_gradient, "attention_backward", lambda *arguments, **options: None
    )
    cases = attention_gradient.cases("cpu", None, ["causal"], ["1x1x40x16"], "f32")
    with pytest.raises(QuodError, match="a gradient of attention is off by up to"):
        next(cases)


@pytest.mark.parametrize("activations", one_and_others(["exact", "int8"]))
@pytest.mark.parametrize("dtype", one_and_others(["f32", "f16", "bf16"]))
def test_rows_by_quantised_weights(
    dtype: str, activations: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "quant", "--type", "Q8_0", "--size", "64", "--matrices", "3", "--batch", "5"]
    words += ["--dtype", dtype, "--activations", activations, *ONCE]
    assert entry.run(words) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["unit"] == "us/product"
    wanted = {"rows": 5, "dtype": dtype, "activations": activations, "matrices": 3}
    assert wanted.items() <= row["parameters"].items()


@pytest.mark.parametrize(("plan", "stored"), [("fused", 0), ("dequantised", 0.008)])
def test_rows_by_weights_that_are_stored(
    plan: str, stored: float, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "quant", "--type", "Q8_0", "--size", "64", "--matrices", "3", "--batch", "5"]
    assert entry.run([*words, "--plan", plan, "--workspaces", "2", *ONCE]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["parameters"].get("workspace MB", 0) == round(stored, 1)
    assert row["parameters"].get("workspaces", 0) == (2 if stored else 0)


def test_rows_that_are_wrong_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised_rows, "dequantise", lambda *arguments: dequantise(*arguments) + 1)
    with pytest.raises(QuodError, match="a product with quantised weights is wrong"):
        next(quantised_rows.cases("cpu", "Q8_0", 32, 1, 3, "f32", "exact"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["attention-gradient", "--kind", "half"],
            "'half' is not a kind; choose one of full, causal",
        ),
        (["attention-gradient", "--shape", "8x8"], "--shape must be 4 sizes such as 1x8x1024x64"),
        (["attention-gradient", "--shape", "1x0x2x3"], "--shape must be 4 sizes"),
        (["attention-gradient", "--dtype", "i8"], "'i8' is not a type of tensors"),
        (["quant", "--batch", "2", "--type", "Q9"], "'Q9' is not a type of blocks"),
        (["quant", "--batch", "2", "--dtype", "f64"], "'f64' is not a type of rows"),
        (["quant", "--batch", "2", "--plan", "both"], "plan must be fused or dequantised, not"),
        (["quant", "--batch", "2", "--size", "100"], "--size must be a multiple of 256 for Q4_K"),
    ],
)
def test_unsupported_arguments_are_rejected(
    words: list[Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", *words, *ONCE]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--lanes", "--width", "--rows", "--together"])
def test_batched_rows_reject_vector_layout_options(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", "quant", "--batch", "2", option, "2"]) == 2
    assert "leave out these options or --batch" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", [["--plan", "fused"], ["--workspaces", "2"]])
def test_vectors_reject_row_plan_options(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert entry.run(["bench", "quant", *option]) == 2
    assert "require --batch" in " ".join(capsys.readouterr().err.split())
