"""Perceptrons and images of random numbers."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.inference import Layer, Perceptron


def layer_of(outputs: int, inputs: int, *, last: bool = False, seed: int = 0) -> Layer:
    """A layer whose activations are seldom all 0 or all 127."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(-128, 128, (outputs, inputs)).astype(np.int8)
    biases = generator.integers(-9999, 9999, outputs)
    return Layer(
        weights,
        biases,
        None if last else generator.integers(0, 1_000_000, outputs) // isqrt(inputs),
    )


def perceptron_of(widths: tuple[int, ...], seed: int) -> Perceptron:
    """Layers of so many outputs each, behind the inputs."""
    shapes = list(pairwise(widths))
    return Perceptron(
        tuple(
            layer_of(outputs, inputs, last=at == len(shapes) - 1, seed=seed + at)
            for at, (inputs, outputs) in enumerate(shapes)
        )
    )


def image_rows(count: int, inputs: int, seed: int) -> NDArray[Any]:
    """Images of all activations there are."""
    return np.random.default_rng(seed).integers(0, 128, (count, inputs))
