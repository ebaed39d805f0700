"""A tiny model with its plan, its key and an answer, made once by the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.cli import entry
from quod.inference.transformer.proof import Answer, Key, read_answer, read_key
from tests.inference.transformer.models import write_llama

PROMPT = "a the"
TOKENS = 5


def write_model(folder: Path, seed: int = 2) -> Path:
    """Write a model and its plan."""
    path = folder / f"m{seed}.gguf"
    write_llama(path, width=32, hidden=64, heads=2, kv_heads=1, kinds=("Q4_1",), seed=seed)
    assert entry.run(["infer", "plan", str(path), "-q"]) == 0
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the model, beside which its plan is."""
    return write_model(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="session")
def key_path(model: Path) -> Path:
    """The file of the model's key."""
    path = model.with_name("model.qtvk")
    assert entry.run(["infer", "commit", str(model), "-o", str(path), "-q"]) == 0
    return path


@pytest.fixture(scope="session")
def answer_path(model: Path, key_path: Path) -> Path:
    """The file of the answer to the prompt."""
    path = model.with_name("answer.qtip")
    words = ["--prompt", PROMPT, "-n", str(TOKENS), "--key", str(key_path), "-q"]
    assert entry.run(["infer", "prove", str(model), "-o", str(path), *words]) == 0
    return path


@pytest.fixture(scope="session")
def key(key_path: Path) -> Key:
    """The model's key."""
    return read_key(key_path)


@pytest.fixture(scope="session")
def answer(answer_path: Path) -> Answer:
    """The answer to the prompt."""
    return read_answer(answer_path)
