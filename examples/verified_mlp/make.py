"""Makes model.gguf and images.npz: digits of scikit-learn enlarged to 28x28, learnt and quantised.

python examples/verified_mlp/make.py  (takes scikit-learn, and half a minute)
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from quod.inference import Layer, Perceptron

FOLDER = Path(__file__).parent
WIDTHS = (784, 256, 128, 10)
SIDE = 28

Reals = NDArray[np.float64]


def images_of(digits: Reals) -> NDArray[np.uint8]:
    """Images of 8x8 with values to 16 as 28x28 with values to 127, between pixels in proportion."""
    at = np.linspace(0, 7, SIDE)
    low = np.minimum(at.astype(int), 6)
    part = at - low
    rows = digits[:, low] * (1 - part)[:, None] + digits[:, low + 1] * part[:, None]
    resized = rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part
    return np.rint(resized * 127 / 16).astype(np.uint8).reshape(len(digits), -1)


def learnt(x: Reals, labels: NDArray[np.int64]) -> list[tuple[Reals, Reals]]:
    """Weights and biases of each layer, by gradient descent with momentum on cross-entropy."""
    generator = np.random.default_rng(7)
    layers = [
        (generator.normal(0, (2 / fan_in) ** 0.5, (fan_out, fan_in)), np.zeros(fan_out))
        for fan_in, fan_out in pairwise(WIDTHS)
    ]
    speeds = [(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
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
                speed_w, speed_b = speeds[number]
                speed_w *= 0.9
                speed_w -= rate * (error.T @ activations[number] + 1e-4 * w)
                speed_b *= 0.9
                speed_b -= rate * error.sum(axis=0)
                error = (error @ w) * (activations[number] > 0)
                layers[number] = w + speed_w, b + speed_b
    return layers


def quantised(layers: list[tuple[Reals, Reals]], x: Reals) -> Perceptron:
    """Weights of eight bits, a scale a row, and activations such that the largest seen are 127."""
    perceptron_layers, scale = [], 1 / 127
    for number, (w, b) in enumerate(layers):
        last = number == len(layers) - 1
        rows = np.abs(w).max(axis=1, keepdims=True) / 127
        if last:
            # Logits are compared with one another, so that all rows have one scale.
            rows = np.full_like(rows, rows.max())
        weights = np.rint(w / rows).astype(np.int8)
        sums = rows[:, 0] * scale
        biases = np.rint(b / sums).astype(np.int64)
        if last:
            perceptron_layers.append(Layer(weights, biases, None))
            break
        x = np.maximum(x @ w.T + b, 0)
        following = float(x.max()) / 127
        perceptron_layers.append(
            Layer(weights, biases, np.rint(sums / following * (1 << 24)).astype(np.int64))
        )
        scale = following
    return Perceptron(tuple(perceptron_layers))


def main() -> None:
    """Writes both files, and prints how many digits are told right."""
    digits = load_digits()
    images, labels = images_of(digits.images), digits.target.astype(np.int64)
    order = np.random.default_rng(1).permutation(len(images))
    training_indices, held_out = order[:-360], order[-360:]
    layers = learnt(images[training_indices] / 127, labels[training_indices])
    perceptron = quantised(layers, images[training_indices] / 127)
    perceptron.write(FOLDER / "model.gguf")
    np.savez_compressed(
        FOLDER / "images.npz", images=images[held_out[:64]], labels=labels[held_out[:64]]
    )
    values = images[held_out].astype(np.int64)
    for layer in perceptron.layers:
        values = values @ layer.weights.T.astype(np.int64) + layer.biases
        if layer.multipliers is not None:
            values = np.clip((values * layer.multipliers + (1 << 23)) >> 24, 0, 127)
    right = (values.argmax(axis=1) == labels[held_out]).mean()
    print(
        f"{right:.1%} of {len(held_out)} digits that were not learnt, {perceptron.table_bits} bits"
    )


if __name__ == "__main__":
    main()
