"""Perceptrons from layers of floats and PyTorch modules: accuracy, edges, bad modules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.inference import Perceptron, QuantisedPerceptron, quantise_layers, quantise_module
from quod.inference.network import run
from quod.inference.perceptron import MAX_TABLE_BITS


def layers(widths: tuple[int, ...], seed: int = 3) -> list[tuple[Any, Any]]:
    draw = np.random.default_rng(seed)
    return [
        (draw.normal(0, (2 / inputs) ** 0.5, (outputs, inputs)), draw.normal(0, 0.1, outputs))
        for inputs, outputs in pairwise(widths)
    ]


def floats(network: list[tuple[Any, Any]], x: Any) -> Any:
    for number, (weights, biases) in enumerate(network):
        x = x @ weights.T + biases
        x = x if number == len(network) - 1 else np.maximum(x, 0)
    return x


def logits_of(quantised: QuantisedPerceptron, x: Any) -> Any:
    """The perceptron's logits in the units of the floats."""
    return run("cpu", quantised.perceptron, quantised.images(x)).logits * quantised.logit_scale


@pytest.mark.parametrize("widths", [(20, 16, 5), (40, 33, 17, 9, 3)], ids=str)
def test_logits_are_near(widths: tuple[int, ...]) -> None:
    network, x = layers(widths), np.random.default_rng(5).random((64, widths[0])) * 3
    exact = floats(network, x)
    error = np.abs(logits_of(quantise_layers(network, x), x) - exact)
    assert error.max() <= 0.02 * len(widths) * np.abs(exact).max()


def test_a_row_is_exact_where_steps_are_whole() -> None:
    """Weights, biases and inputs that are multiples of their scales lose nothing."""
    network = [(np.array([[127.0, -64.0], [2.0, 127.0]]), np.array([3.0, -5.0])),
               (np.array([[127.0, 1.0]]), None)]  # fmt: skip
    x = np.array([[127.0, 0.0], [3.0, 9.0], [50.0, 127.0]])
    quantised = quantise_layers(network, x, input_scale=1.0)
    first = quantised.perceptron.layers[0]
    assert first.weights.tolist() == [[127, -64], [2, 127]]
    assert first.biases.tolist() == [3, -5]
    assert np.array_equal(quantised.images(x), x)
    assert quantised.images(np.array([[500.0, 0.4]])).tolist() == [[127, 0]]


def test_layers_without_weights_and_dead_units() -> None:
    """Rows of zeros, a large bias, and a layer whose activations are all 0."""
    network = [
        (np.zeros((3, 4)), np.array([0.0, 1e6, -1.0])), (np.full((2, 3), -1.0), np.zeros(2)),
        (np.ones((2, 2)), np.array([0.5, -0.25])),
    ]  # fmt: skip
    for x in (np.ones((2, 4)), np.zeros((1, 4))):
        quantised = quantise_layers(network, x)
        error = np.abs(logits_of(quantised, x) - [0.5, -0.25])
        assert (error <= 0.51 * quantised.logit_scale).all()


def test_sums_fit_the_table() -> None:
    """Samples far smaller than the largest possible sums give a larger scale instead."""
    network = [(np.ones((2, 3000)), np.full(2, -20000.0)), (np.ones((2, 2)), None)]
    quantised = quantise_layers(network, np.full((1, 3000), 7.0), input_scale=1.0)
    assert quantised.perceptron.table_bits <= MAX_TABLE_BITS


def test_a_module_of_pytorch(tmp_path: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")
    nn = torch.nn
    torch.manual_seed(2)
    body = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2))
    module = nn.Sequential(body, nn.Linear(8, 4, bias=False)).eval()
    samples = torch.rand(50, 2, 3)
    quantised = quantise_module(module, samples)
    exact = module(samples).detach().numpy()
    assert np.abs(logits_of(quantised, samples) - exact).max() <= 0.03 * np.abs(exact).max()
    quantised.perceptron.write(tmp_path / "model.gguf")
    again = Perceptron.open(tmp_path / "model.gguf")
    assert np.array_equal(again.layers[0].weights, quantised.perceptron.layers[0].weights)
    for children, message in (
        ([nn.Linear(6, 8), nn.Linear(8, 4)], "^module 1 must be ReLU, not Linear$"),
        ([nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4)], "^module 1 must be ReLU, not GELU$"),
        ([nn.Linear(6, 8), nn.ReLU()], "^the last module must be Linear, not ReLU$"),
        ([nn.Sequential(nn.ReLU())], "^module 0.0 must be Linear, not ReLU$"),
        ([], "^there must be a layer at least$"),
        ([nn.Linear(6, 8)], "^a perceptron must have 2 to 9 layers, not 1$"),
    ):
        with pytest.raises(InputError, match=message):
            quantise_module(nn.Sequential(*children), samples)
    with pytest.raises(InputError, match=r"^the module must be an nn.Sequential, not a Linear$"):
        quantise_module(nn.Linear(6, 8), samples)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": -np.ones((2, 4))}, "^samples must not be negative"),
        ({"samples": np.ones((2, 5))}, "^samples must be rows of 4 numbers, not of shape"),
        ({"samples": np.ones((0, 4))}, "^there must be a sample at least"),
        ({"samples": np.full((2, 4), np.nan)}, "^samples must be finite"),
        ({"samples": [[1.0] * 4]}, "^samples must be a NumPy array, not a list"),
        ({"samples": np.full((2, 4), "a")}, "^samples must be finite numbers"),
        ({"input_scale": 0.0}, "^input_scale must be at least"),
        ({"layers": [(np.ones(4), None)]}, "^the weights of layer 0 must be of shape"),
        ({"layers": [(np.ones((3, 4)), np.ones(4))]}, "^the biases of layer 0 must be 3 numbers"),
        (
            {"layers": [(np.ones((3, 4)), None), (np.ones((2, 5)), None)]},
            "^layer 1 takes 5 activations; the one before it gives 3",
        ),
    ],
)
def test_refused_arguments(change: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {
        "layers": [(np.ones((3, 4)), None), (np.ones((2, 3)), None)], "samples": np.ones((2, 4)),
    }  # fmt: skip
    quantise_layers(**right)
    with pytest.raises(InputError, match=message):
        quantise_layers(**right | change)
