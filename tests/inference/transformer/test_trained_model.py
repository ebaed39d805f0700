"""The model of two layers that the example trains: it has learned its text, exactly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quod.formats import Gguf
from quod.inference import Transformer
from quod.inference.transformer.model import read_model
from quod.inference.transformer.plan import accuracy
from quod.inference.transformer.reference import Reference
from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "train_transformer"
MODEL = EXAMPLE / "language_model.gguf"
LICENCE = (REPOSITORY / "LICENSE").read_text()
PROMPT = "Unless required by applicable law"


@pytest.fixture(scope="module")
def transformer() -> Transformer:
    return Transformer.open(MODEL)


def test_it_continues_its_text(transformer: Transformer) -> None:
    text = "".join(token.text for token in transformer.generate(PROMPT, 40))
    start = LICENCE.index(PROMPT) + len(PROMPT)
    assert text == LICENCE[start : start + len(text)]
    assert len(text) > 100


def test_it_is_as_accurate_as_floats(transformer: Transformer) -> None:
    tokens = np.array(transformer.tokenizer.encode(LICENCE))[:1000]
    report = accuracy(transformer.program, [tokens])
    assert (report.equal_choices, report.saturated) == (1.0, 0.0)
    assert report.divergence < 1e-5
    assert report.perplexity < 1.4
    assert report.perplexity == pytest.approx(report.float_perplexity, rel=1e-3)
    # Scales that other processors choose may differ by a power of two.
    plan = Transformer.make_plan(MODEL)
    assert abs(plan.scales.residual - transformer.plan.scales.residual) <= 1


def test_logits_are_those_of_the_reference(transformer: Transformer) -> None:
    tokens = transformer.tokenizer.encode(LICENCE)[500:600]
    expected = Reference(transformer.program).logits(np.array(tokens))
    assert np.array_equal(transformer.logits(tokens, rows=100), expected)


@pytest.mark.thorough
def test_the_example_trains_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="run tools/setup.sh torch")
    path = tmp_path / "model.gguf"
    script = str(EXAMPLE / "language_model.py")
    subprocess.run([sys.executable, script, "-o", str(path), "--steps", "3"], check=True)
    model, trained = Gguf.open(path), Gguf.open(MODEL)
    assert read_model(model).architecture == read_model(trained).architecture
    names = "tokenizer.ggml.tokens"
    assert list(model.metadata[names]) == list(trained.metadata[names])  # type: ignore[call-overload]
