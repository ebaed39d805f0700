"""Arguments of the Python interface that are of a wrong type or out of range: typed errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.inference import Transformer
from tests.inference.transformer.test_trained_model import MODEL

Call = Callable[[Transformer], object]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer.open(MODEL, context=32, sequences=2)


@pytest.mark.parametrize(
    "temperature",
    [True, "0.5", "1e999999999", None, -1, -1e-9, 1e-9, 1e-3, 101, 1e300, 10**400, math.nan,
     math.inf, 1j, [1], np.array([0.5, 0.5])],
)  # fmt: skip
def test_temperatures(model: Transformer, temperature: Any) -> None:
    with pytest.raises(InputError, match="the temperature"):
        model.generate("the", 2, temperature=temperature)


@pytest.mark.parametrize("temperature", [0, -0.0, 0.01, 100, np.int64(1), Fraction(1, 2)])
def test_temperatures_of_other_types(model: Transformer, temperature: Any) -> None:
    assert len(list(model.generate("the", 2, temperature=temperature))) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.generate(None),
        lambda model: model.generate(5),
        lambda model: model.generate(b"the"),
        lambda model: model.generate({1: 2}),
        lambda model: model.generate([1.0]),
        lambda model: model.generate([10**30]),
        lambda model: model.generate("a", "3"),
        lambda model: model.generate("a", True),
        lambda model: model.generate("a", stop=None),
        lambda model: model.generate("a", stop="abc"),
        lambda model: model.generate("a", stop=[1.5]),
        lambda model: model.generate("a", temperature=1, seed="a"),
        lambda model: model.generate_batch(None),
        lambda model: model.generate_batch("ab"),
        lambda model: model.generate_batch([1]),
        lambda model: model.logits(None),
        lambda model: model.logits("abc"),
        lambda model: model.logits([1.5]),
        lambda model: model.logits([]),
        lambda model: model.log_probabilities(None),
        lambda model: model.log_probabilities([1.5]),
        lambda model: model.chat(None),
        lambda model: model.chat("hi"),
        lambda model: model.chat([5]),
        lambda model: model.chat([("role", "content")]),
        lambda model: model.chat([{"role": "user", "content": 5}]),
        lambda model: model.tokenizer.encode(b"a"),
        lambda model: model.tokenizer.decode("a"),
        lambda model: model.tokenizer.decode([-1]),
        lambda model: model.tokenizer.decode([10**9]),
        lambda model: model.batch().add("a"),
        lambda model: model.batch().add(model.generation("a", 0)),
        lambda _: Transformer.open(MODEL, sequences=1.5),  # type: ignore[arg-type]
        lambda _: Transformer.open(MODEL, context="a"),  # type: ignore[arg-type]
        lambda _: Transformer.open(None),  # type: ignore[arg-type]
        lambda _: Transformer.open(5),  # type: ignore[arg-type]
        lambda _: Transformer.open(b"x"),  # type: ignore[arg-type]
        lambda _: Transformer.make_plan(MODEL, "text"),
        lambda _: Transformer.make_plan(MODEL, [b"a"]),  # type: ignore[list-item]
        lambda _: Transformer.make_plan(MODEL, evaluation=[""]),
        lambda _: Transformer.make_plan(MODEL, progress=5),  # type: ignore[arg-type]
    ],
)
def test_wrong_types(model: Transformer, call: Call) -> None:
    with pytest.raises(InputError):
        call(model)


def test_an_absent_model_is_reported_before_its_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.gguf: does not exist"):
        Transformer.open(tmp_path / "absent.gguf")


def test_batches_change_between_steps(model: Transformer) -> None:
    """A text that enters late has the tokens that it has alone, also with a prompt in the cache."""
    alone = [each.token for each in model.generate("the copyright", 6)]
    batch = model.batch()
    first = batch.add(model.generation("a license", 12))
    tokens: dict[int, list[int]] = {first: []}
    late = -1
    for number in range(14):
        if number == 3:
            late = batch.add(model.generation("the copyright", 6))
            tokens[late] = []
            with pytest.raises(InputError, match="the batch is full with 2 texts"):
                batch.add(model.generation("a", 2))
        for step in batch.step():
            if step.generated is not None:
                tokens[step.text].append(step.generated.token)
    assert tokens[late] == alone
    assert (len(tokens[first]), batch.free) == (12, 2)
    # The start of the prompt is in the cache of the sequence that it had.
    again = batch.add(model.generation("the copyright", 6))
    assert again == late
    batch.remove(again)
    assert (batch.step(), batch.free) == ([], 2)
    # Another evaluation ends the batch.
    assert [each.token for each in model.generate("the copyright", 6)] == alone
    with pytest.raises(InputError, match="the batch has ended"):
        batch.step()
