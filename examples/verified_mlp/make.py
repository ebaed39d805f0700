"""Make model.gguf and images.npz: train a perceptron on scikit-learn's digits, and quantise it.

python examples/verified_mlp/make.py  (needs scikit-learn; takes half a minute)
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from quod.inference import quantise_layers

FOLDER = Path(__file__).parent
WIDTHS = (784, 256, 128, 10)
SIDE = 28

Reals = NDArray[np.float64]


def images_of(digits: Reals) -> NDArray[np.uint8]:
    """Enlarge 8x8 images with values up to 16 to 28x28 with values up to 127, bilinearly."""
    position = np.linspace(0, 7, SIDE)
    low = np.minimum(position.astype(int), 6)
    fraction = position - low
    rows = digits[:, low] * (1 - fraction)[:, None] + digits[:, low + 1] * fraction[:, None]
    resized = rows[:, :, low] * (1 - fraction) + rows[:, :, low + 1] * fraction
    return np.rint(resized * 127 / 16).astype(np.uint8).reshape(len(digits), -1)


def train_layers(x: Reals, labels: NDArray[np.int64]) -> list[tuple[Reals, Reals]]:
    """Train by gradient descent with momentum on cross-entropy; return weights and biases."""
    generator = np.random.default_rng(7)
    layers = [
        (generator.normal(0, (2 / fan_in) ** 0.5, (fan_out, fan_in)), np.zeros(fan_out))
        for fan_in, fan_out in pairwise(WIDTHS)
    ]
    velocities = [(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
    for epoch in range(40):
        rate = 0.05 * 0.93**epoch
        for batch in np.array_split(generator.permutation(len(x)), len(x) // 32):
            activations = [x[batch]]
            for number, (w, b) in enumerate(layers):
                sums = activations[-1] @ w.T + b
                activations.append(sums if number == len(layers) - 1 else np.maximum(sums, 0))
            error = np.exp(activations[-1] - activations[-1].max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(len(batch)), labels[batch]] -= 1
            error /= len(batch)
            for number in reversed(range(len(layers))):
                w, b = layers[number]
                velocity_w, velocity_b = velocities[number]
                velocity_w *= 0.9
                velocity_w -= rate * (error.T @ activations[number] + 1e-4 * w)
                velocity_b *= 0.9
                velocity_b -= rate * error.sum(axis=0)
                error = (error @ w) * (activations[number] > 0)
                layers[number] = w + velocity_w, b + velocity_b
    return layers


def main() -> None:
    """Write both files, and print the accuracy on digits that were not trained on."""
    digits = load_digits()
    images, labels = images_of(digits.images), digits.target.astype(np.int64)
    order = np.random.default_rng(1).permutation(len(images))
    training_indices, held_out = order[:-360], order[-360:]
    layers = train_layers(images[training_indices] / 127, labels[training_indices])
    samples = images[training_indices] / 127
    perceptron = quantise_layers(layers, samples, input_scale=1 / 127).perceptron
    perceptron.write(FOLDER / "model.gguf")
    np.savez_compressed(
        FOLDER / "images.npz", images=images[held_out[:64]], labels=labels[held_out[:64]]
    )
    values = images[held_out].astype(np.int64)
    for layer in perceptron.layers:
        values = values @ layer.weights.T.astype(np.int64) + layer.biases
        if layer.multipliers is not None:
            values = np.clip((values * layer.multipliers + (1 << 23)) >> 24, 0, 127)
    accuracy = (values.argmax(axis=1) == labels[held_out]).mean()
    print(
        f"{accuracy:.1%} of {len(held_out)} digits that were not learnt, "
        f"{perceptron.table_bits} bits"
    )


if __name__ == "__main__":
    main()
