"""Benchmarks of language models in exact integers: prompts, and tokens after them.

Weights are random unless a model is given: the time does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from quod.bench.measure.harness import Case
from quod.formats import Gguf
from quod.inference.transformer.architecture import FAMILIES, Architecture
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.model import Layer, Linear, Model, Norm, read_model
from quod.inference.transformer.program import Program, build
from quod.inference.transformer.scales import LayerScales, Scales
from quod.inference.transformer.transformer import Transformer

_SCALES = LayerScales(12, 10, 10, 12, 12, 12, 10, 11, 11, 17)
"""Fractional bits that are usual, for random weights."""


def cases(device: str, path: Path | None, layers: int, tokens: int) -> Iterator[Case]:
    """Yield the time of a prompt, and of the token after it, with its position in the cache.

    layers: the layers of a model with random weights, whose shape is SmolLM2-135M's otherwise.
    """
    program = _program_of_file(path) if path is not None else _random_program(layers, tokens + 1)
    model = DeviceModel(device, program, context=tokens + 1)
    prompt = np.arange(tokens) % program.model.vocabulary
    model.extend(prompt)

    def evaluate_prompt() -> None:
        model.rewind(0)
        model.extend(prompt)

    def evaluate_token() -> None:
        model.rewind(tokens)
        model.extend(prompt[:1])

    def case(what: str, run: Callable[[], object]) -> Case:
        return Case({"layers": len(program.layers), "tokens": tokens, "what": what}, run, "s")

    yield case("prompt", evaluate_prompt)
    yield case("next token", evaluate_token)


def _program_of_file(path: Path) -> Program:
    plan = Transformer.make_plan(path)
    return build(read_model(Gguf.open(path)), plan.scales)


def _random_program(layers: int, context: int) -> Program:
    """Return a program of SmolLM2-135M's shape, with another number of layers."""
    shape = Architecture(
        FAMILIES["llama"], layers, context, width=576, hidden=1536, heads=9, kv_heads=3,
        head_width=64, epsilon=1e-5, rope_base=1e5,
    )  # fmt: skip
    rng = np.random.default_rng(layers)

    def matrix(rows: int, columns: int, bits: int = 4) -> IntegerMatrix:
        scales = rng.integers(1 << 14, 1 << 15, (rows, columns // 32)).astype(np.int32)
        quants = rng.integers(0, 1 << bits, (rows, columns), np.uint8)
        return IntegerMatrix("random", bits, 32, quants, scales, scales << (bits - 1), -20)

    def linear(rows: int, columns: int) -> Linear:
        return Linear(matrix(rows, columns), None)

    def norm() -> Norm:
        return Norm("random", np.ones(shape.width), None)

    embedding = matrix(49152, shape.width, 8)
    model = Model(
        "random weights", shape, embedding, None, None,
        tuple(
            [
                Layer(
                    norm(), linear(shape.query_width, shape.width),
                    linear(shape.kv_width, shape.width), linear(shape.kv_width, shape.width),
                    linear(shape.width, shape.query_width), norm(),
                    linear(shape.hidden, shape.width), linear(shape.hidden, shape.width),
                    linear(shape.width, shape.hidden),
                )
                for _ in range(layers)
            ]
        ),
        norm(), Linear(embedding, None),
    )  # fmt: skip
    return build(model, Scales(10, 8, (_SCALES,) * layers))
