"""Plans: their files, their accuracy, and models that they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, MismatchError, OutputError
from quod.formats import Gguf
from quod.frozen import replace
from quod.inference import Plan, read_plan
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.model import Model, read_model
from quod.inference.transformer.plan import accuracy, check_bounds, largest_sum, make_plan
from quod.inference.transformer.program import Product, Program, build
from quod.inference.transformer.scales import LayerScales, Scales
from tests.inference.transformer.models import VOCABULARY, altered

TOKENS = np.random.default_rng(8).integers(0, VOCABULARY, 300)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_plans_are_as_accurate_as_floats(programs: dict[str, Program], name: str) -> None:
    report = accuracy(programs[name], [TOKENS])
    assert report.tokens == 300
    assert report.divergence < 1e-4
    assert report.equal_choices > 0.97
    assert report.perplexity == pytest.approx(report.float_perplexity, rel=2e-2)


def test_plans_are_kept_in_files(
    files: dict[str, Path], models: dict[str, Model], tmp_path: Path
) -> None:
    steps: list[tuple[str, int, int]] = []
    plan = make_plan(
        Gguf.open(files["uniform"]), models["uniform"], [TOKENS[:20], TOKENS[20:30]],
        [TOKENS[:5]], lambda *step: steps.append(step),
    )  # fmt: skip
    assert steps == [("calibration", 30, 30), ("accuracy", 5, 5)]
    path = tmp_path / "p.json"
    plan.write(path, replace=False)
    assert read_plan(path) == plan
    assert plan.calibration_tokens == 30
    with pytest.raises(OutputError):
        plan.write(path, replace=False)
    with pytest.raises(MismatchError, match="the plan is for the model with SHA-256"):
        plan.check_model(Gguf.open(files["llama"]), bytes(32))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "other", "is not a plan of a language model"),
        ("version", 2, "has version 2 of plans"),
        ("layer_values", [], "section layer_values: is not"),
        ("scales", [], "section scales: is no object with layers, norm and residual"),
        ("scales", {"layers": 1, "norm": 1, "residual": 1}, "section scales.layers: is no list"),
        ("scales", {"layers": [[1]], "norm": 1, "residual": 1}, "has no 10 numbers"),
        (
            "scales", {"layers": [[1] * 9 + [25]], "norm": 1, "residual": 1},
            r"section scales.layers\[0\]: is no number from 0 to 24",
        ),
        ("scales", {"layers": [], "norm": True, "residual": 1}, "section scales.norm: is no numb"),
        ("model", "00", "section model: is no SHA-256 in hexadecimal"),
        ("model", "zz", "section model: is no SHA-256 in hexadecimal"),
        ("calibration_tokens", 0, "section calibration_tokens: is no number above zero"),
        ("report", {"tokens": "1"}, "section report: is no object with tokens, divergence"),
    ],
)  # fmt: skip
def test_changed_plans_are_refused(
    plans: dict[str, Plan], tmp_path: Path, field: str, value: Any, message: str
) -> None:
    path = tmp_path / "p.json"
    plans["uniform"].write(path)
    document = json.loads(path.read_text())
    document[field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        read_plan(path)
    assert caught.value.path == str(path)


def test_reports_must_be_numbers(plans: dict[str, Plan], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    plans["uniform"].write(path)
    document = json.loads(path.read_text())
    names = ("tokens", "divergence", "equal_choices", "perplexity", "float_perplexity", "saturated")
    document["report"] = dict.fromkeys(names, "much")
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="section report: has a value that is no number"):
        read_plan(path)


def test_sums_that_could_overflow_are_refused(programs: dict[str, Program]) -> None:
    program = programs["llama"]
    check_bounds(program)
    query = program.layers[0].query
    rows = np.abs(query.matrix.integers()).sum(axis=1).max()
    assert largest_sum(query) == int(rows) * 32767 + (1 << query.shift >> 1)
    scales = np.full(query.matrix.scales.shape, 2**31 - 1, np.int32)
    huge = IntegerMatrix(
        "blk.0.attn_q.weight", 8, 32, np.full((64, 64), 255, np.uint8), scales, scales * 0, 0
    )
    product = Product(huge, None, 20, 32767, 1 << 23)
    object.__setattr__(program.layers[0], "query", product)
    try:
        with pytest.raises(InputError, match=r"sums could reach 2\^67") as caught:
            check_bounds(program)
        assert caught.value.section == "tensor 'blk.0.attn_q.weight'"
    finally:
        object.__setattr__(program.layers[0], "query", query)


def test_plans_of_other_shapes_are_refused(
    models: dict[str, Model], plans: dict[str, Plan]
) -> None:
    scales = plans["llama"].scales
    with pytest.raises(InputError, match="the plan has 1 layers and the model 2"):
        build(models["llama"], Scales(scales.residual, scales.norm, scales.layers[:1]))
    low = LayerScales(0, 0, 0, 24, 0, 0, 0, 0, 0, 0)
    with pytest.raises(InputError, match="needs a shift by -"):
        build(models["llama"], Scales(scales.residual, scales.norm, (low, low)))


def test_plans_need_texts(files: dict[str, Path], models: dict[str, Model]) -> None:
    with pytest.raises(InputError, match="the calibration texts have no tokens"):
        make_plan(Gguf.open(files["uniform"]), models["uniform"], [])


def test_models_of_infinite_values_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    ones = np.full((64, 64), 3e38, np.float32)
    file = altered(
        tmp_path / "m.gguf", files["llama"], {}, {"blk.1.attn_output.weight": ("F32", ones)}
    )
    with pytest.raises(InputError, match="values of the model are infinite or NaN in f32"):
        make_plan(file, read_model(file), [TOKENS[:5]])


def test_biases_that_are_too_large_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    bias = np.full(128, 1e15, np.float32)
    file = altered(tmp_path / "m.gguf", files["gpt2"], {}, {"blk.0.ffn_up.bias": ("F32", bias)})
    with pytest.raises(InputError, match=r"the bias of tensor 'blk.0.ffn_up.weight' is 1e.15"):
        make_plan(file, read_model(file), [TOKENS[:5]])


def test_an_epsilon_beyond_64_bits_is_refused(
    models: dict[str, Model], plans: dict[str, Plan]
) -> None:
    """A width at which sums of squares reach almost 2**63."""
    model = models["llama"]
    shape = replace(model.architecture, width=512, epsilon=1.0)
    scales = replace(plans["llama"].scales, residual=16)
    with pytest.raises(InputError, match=r"the epsilon 1 of the norm 'blk.0.attn_norm.weight'"):
        build(replace(model, architecture=shape), scales)
    build(replace(model, architecture=replace(shape, epsilon=1e-3)), scales)
