"""Tiny models with their plans, made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.formats import Gguf
from quod.inference import Plan
from quod.inference.transformer.model import Model, read_model
from quod.inference.transformer.plan import make_plan
from quod.inference.transformer.program import Program, build
from tests.inference.transformer.models import VOCABULARY, write_gpt2, write_llama

WRITERS: dict[str, Callable[[Path], Path]] = {
    "llama": write_llama,
    "untied": lambda path: write_llama(
        path, width=256, hidden=256, heads=4, kinds=("Q4_K", "Q6_K"), tied=False
    ),
    "gpt2": write_gpt2,
    "qwen2": lambda path: write_llama(
        path, width=256, hidden=256, kinds=("Q5_K", "Q8_0"), family="qwen2"
    ),
    "uniform": lambda path: write_llama(
        path, width=32, hidden=64, heads=2, kv_heads=1, kinds=("Q4_1",)
    ),
    # Rows of products that fill no whole block, and a long context.
    "narrow": lambda path: write_llama(
        path, width=96, heads=12, kv_heads=3, kinds=("Q8_0", "Q4_0", "Q8_0", "Q8_0"), context=4096
    ),
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the models by name."""
    folder = tmp_path_factory.mktemp("models")
    return {name: write(folder / f"{name}.gguf") for name, write in WRITERS.items()}


@pytest.fixture(scope="session")
def models(files: dict[str, Path]) -> dict[str, Model]:
    """The models by name."""
    return {name: read_model(Gguf.open(path)) for name, path in files.items()}


@pytest.fixture(scope="session")
def plans(files: dict[str, Path], models: dict[str, Model]) -> dict[str, Plan]:
    """The plans of the models, from random tokens."""
    tokens = np.random.default_rng(3).integers(0, VOCABULARY, 64)
    return {
        name: make_plan(Gguf.open(files[name]), model, [tokens]) for name, model in models.items()
    }


@pytest.fixture(scope="session")
def programs(models: dict[str, Model], plans: dict[str, Plan]) -> dict[str, Program]:
    """The programs of the models under their plans."""
    return {name: build(model, plans[name].scales) for name, model in models.items()}
