"""A model of two layers, a text that it chose, and its proof, made once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from quod.formats import Gguf
from quod.inference.transformer.model import read_model
from quod.inference.transformer.plan import make_plan
from quod.inference.transformer.program import Program, build
from quod.inference.transformer.proof.prover import Prover
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.reference import Reference, greedy
from tests.inference.transformer.models import VOCABULARY, write_llama


@dataclass(frozen=True)
class Answer:
    """A program, its prover, a statement that holds, and the proof."""

    program: Program
    prover: Prover
    statement: Statement
    proof: bytes


def text_of(program: Program, prompt: list[int], count: int) -> tuple[int, ...]:
    """Return a prompt and the tokens that the reference chooses after it."""
    tokens, reference = list(prompt), Reference(program)
    for _ in range(count):
        tokens.append(greedy(reference.logits(np.array(tokens))[-1]))
    return tuple(tokens)


def tiny_program(folder: Path, **sizes: object) -> tuple[Program, bytes]:
    """Return the program of a small model, and the digest of its file."""
    path = write_llama(folder / "tiny.gguf", **sizes)  # type: ignore[arg-type]
    file = Gguf.open(path)
    model = read_model(file)
    plan = make_plan(file, model, [np.random.default_rng(3).integers(0, VOCABULARY, 64)])
    return build(model, plan.scales), plan.digest


@pytest.fixture(scope="session")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """An answer of five tokens to a prompt of three."""
    folder = tmp_path_factory.mktemp("answers")
    program, digest = tiny_program(
        folder, width=32, hidden=64, heads=2, kv_heads=1, kinds=("Q4_1", "Q8_0")
    )
    prover = Prover("cpu", program, digest)
    statement = Statement(text_of(program, [5, 9, 77], 5), 3)
    return Answer(program, prover, statement, prover.prove(statement))
