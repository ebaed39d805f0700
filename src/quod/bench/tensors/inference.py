"""Benchmarks of verified inference: proofs for a perceptron with 8-bit weights.

Weights are random unless a model is given: the cost of a proof does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.bench.proofs.process import run_uncached, what_is_compiled
from quod.device.discovery import open_device
from quod.inference import Layer, Perceptron, Prover, verify


def cases(
    device: str, model: Path | None, widths: list[int], images: int, *, cold: bool = False
) -> Iterator[Case]:
    """Yield the time of a proof, including its self-check, its size, and its verification.

    cold: also the time of a process that proves and verifies once, with an empty cache.
    """
    prover, image_batch = _prover_of(device, model, widths, images)
    inference = prover.prove(image_batch)
    network = "-".join(map(str, prover.key.widths))

    def case(what: str, run: Callable[[], object], unit: str = "s") -> Case:
        parameters: dict[str, Parameter] = {"network": network, "images": images, "what": what}
        return Case(parameters, run, unit, returns_figure=unit != "s")

    yield case("prove", partial(prover.prove, image_batch))
    yield case("proof", lambda: len(prover.prove(image_batch).proof), "bytes")
    yield case(
        "verify", partial(verify, prover.key, image_batch, inference.logits, inference.proof)
    )
    if cold:
        arguments = f"{device!r}, {None if model is None else str(model)!r}, {widths}, {images}"
        code = f"from {__name__} import prove_and_verify as run; run({arguments})"
        prove_uncached = partial(run_uncached, "-c", code)
        yield case(f"prove and verify, {what_is_compiled()}", prove_uncached)


def prove_and_verify(device: str, model: str | None, widths: list[int], images: int) -> None:
    """Prove once and verify the proof: the program of a process that is measured."""
    prover, image_batch = _prover_of(device, None if model is None else Path(model), widths, images)
    inference = prover.prove(image_batch)
    verify(prover.key, image_batch, inference.logits, inference.proof)


def _prover_of(
    device: str, model: Path | None, widths: list[int], images: int
) -> tuple[Prover, np.ndarray[Any, Any]]:
    """Return the prover of a model, or of one of random weights, and the images to prove."""
    generator = np.random.default_rng(images)
    perceptron = random_perceptron(widths, generator) if model is None else Perceptron.open(model)
    image_batch = generator.integers(0, 128, (images, perceptron.layers[0].inputs))
    return Prover(open_device(device), perceptron), image_batch


def random_perceptron(widths: list[int], generator: np.random.Generator) -> Perceptron:
    """Make layers whose activations are seldom all 0 or all 127; raises InputError."""
    shapes = list(pairwise(widths))
    return Perceptron(
        tuple(
            Layer(
                generator.integers(-127, 128, (outputs, inputs)).astype(np.int8),
                generator.integers(-9999, 9999, outputs),
                generator.integers(0, 1_000_000, outputs) // isqrt(inputs) if hidden else None,
            )
            for hidden, (inputs, outputs) in zip(range(len(shapes) - 1, -1, -1), shapes)
        )
    )
