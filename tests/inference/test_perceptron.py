"""Perceptrons: results equal integer arithmetic; files; invalid arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.device import CpuDevice
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.formats.gguf.writer import write_gguf
from quod.inference import Layer, Perceptron, network, run
from tests.inference.networks import image_rows, layer_of, perceptron_of


def plain_logits(perceptron: Perceptron, image: list[int]) -> list[int]:
    """By Python's integers."""
    values = image
    for layer in perceptron.layers:
        rows = zip(layer.weights.tolist(), layer.biases.tolist(), strict=True)
        sums = [sum(w * x for w, x in zip(r, values, strict=True)) + bias for r, bias in rows]
        if layer.multipliers is None:
            return sums
        scaled = [
            (s * m + 2**23) // 2**24 for s, m in zip(sums, layer.multipliers.tolist(), strict=True)
        ]
        values = [min(max(each, 0), 127) for each in scaled]
    raise AssertionError


@pytest.mark.parametrize("widths", [(1, 1, 1), (9, 5, 4, 3), (63, 65, 2), (33, 7, 64, 10)])
def test_logits_match_integer_arithmetic(device: AnyDevice, widths: tuple[int, ...]) -> None:
    perceptron, images = perceptron_of(widths, seed=3), image_rows(7, widths[0], seed=4)
    activations = run(device, perceptron, images)
    assert activations.logits.tolist() == [plain_logits(perceptron, row) for row in images.tolist()]
    for quotients, remainders, layer in zip(
        activations.quotients, activations.remainders, perceptron.hidden, strict=True
    ):
        assert quotients.shape == remainders.shape == (7, layer.outputs)
        assert ((remainders >= 0) & (remainders < 1 << 24)).all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=3, max_size=5), st.integers(0, 1 << 30))
def test_any_shape(widths: list[int], seed: int) -> None:
    perceptron, images = perceptron_of(tuple(widths), seed), image_rows(3, widths[0], seed)
    assert run("cpu", perceptron, images).logits.tolist() == [
        plain_logits(perceptron, row) for row in images.tolist()
    ]


def test_the_largest_activations_and_weights() -> None:
    weights = np.full((2, 300), -128, np.int8)
    weights[1] = 127
    hidden = Layer(weights, np.array([0, 5]), np.array([1, 100_000]))
    last = Layer(np.array([[127, -128]], np.int8), np.array([-(1 << 30)]), None)
    perceptron = Perceptron((hidden, last))
    images = np.full((1, 300), 127)
    activations = run("cpu", perceptron, images)
    assert activations.logits.tolist() == [plain_logits(perceptron, images[0].tolist())]
    largest = hidden.largest_sums()
    assert largest.tolist() == [127 * 128 * 300, 127 * 127 * 300 + 5]
    # The bits of the greatest quotient there can be, and one for the sign.
    assert perceptron.table_bits == ((largest[1] * 100_000 + 2**23) >> 24).item().bit_length() + 1


def test_perceptron_copies_its_arrays() -> None:
    """Later changes to the source arrays have no effect."""
    first, last = layer_of(3, 4), layer_of(2, 3, last=True)
    perceptron, images = Perceptron((first, last)), image_rows(2, 4, seed=1)
    expected = run("cpu", perceptron, images).logits
    first.weights[:] = 127
    last.biases[:] = 1 << 40
    assert (run("cpu", perceptron, images).logits == expected).all()
    with pytest.raises(ValueError, match="read-only"):
        perceptron.layers[0].weights[0, 0] = 1


def test_element_counts_beyond_kernel_limits_are_rejected() -> None:
    images = np.broadcast_to(np.zeros(1, np.int64), (1 << 19, 1 << 12))
    with pytest.raises(InputError, match=r"524288 images .*are too many"):
        network._sums(resolve_device("cpu"), layer_of(1, 1 << 12, last=True), images)


def test_uncomputed_sums_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    perceptron = perceptron_of((4, 3, 2), seed=1)
    monkeypatch.setattr(CpuDevice, "launch", lambda *_, **__: None)
    with pytest.raises(DeviceError, match="without computing the sums of a layer"):
        run("cpu", perceptron, image_rows(2, 4, seed=1))


def test_written_file_round_trips(tmp_path: Path) -> None:
    perceptron = perceptron_of((9, 5, 3), seed=2)
    perceptron.write(tmp_path / "a.gguf")
    read = Perceptron.open(tmp_path / "a.gguf")
    for layer, other in zip(perceptron.layers, read.layers, strict=True):
        assert (layer.weights == other.weights).all()
        assert (layer.biases == other.biases).all()
        assert (layer.multipliers is None) == (other.multipliers is None)
        assert layer.multipliers is None or (layer.multipliers == other.multipliers).all()


WEIGHTS = "layer.0.weight", "I8", np.zeros((3, 2), np.int8)
BIASES = "layer.0.bias", "I32", np.zeros(3, np.int32)


@pytest.mark.parametrize(
    ("kind", "tensors", "message"),
    [
        ("llama", [WEIGHTS], "general.architecture must be quod-perceptron"),
        (np.zeros(2, np.uint8), [WEIGHTS], "general.architecture must be quod-perceptron"),
        ("quod-perceptron", [], "a perceptron must have 2 to 9 layers, not 0"),
        ("quod-perceptron", [WEIGHTS], "tensor layer.0.bias is missing"),
        ("quod-perceptron", [("layer.0.weight", "I32", np.zeros((3, 2), np.int32)), BIASES],
         "tensor layer.0.weight at offset [0-9]+ is I32 of 2 dimensions, not I8 of 2"),
        ("quod-perceptron", [WEIGHTS, ("layer.0.bias", "I32", np.zeros((3, 1), np.int32))],
         "is I32 of 2 dimensions, not I32 of 1"),
        ("quod-perceptron", [WEIGHTS, BIASES, ("layer.2.weight", "I8", np.zeros((3, 2), np.int8))],
         r"tensor layer\.2\.weight is unknown in a perceptron of 1 layers"),
        ("quod-perceptron", [WEIGHTS, BIASES, ("layer.0.scale", "I32", np.zeros(3, np.int32))],
         r"tensor layer\.0\.scale is unknown in a perceptron of 1 layers"),
    ],
)  # fmt: skip
def test_files_that_are_refused(
    tmp_path: Path, kind: Any, tensors: list[tuple[str, str, Any]], message: str
) -> None:
    path = tmp_path / "a.gguf"
    tensors_by_name = {name: (type_, array) for name, type_, array in tensors}
    write_gguf(path, {"general.architecture": kind}, tensors_by_name)
    with pytest.raises(InputError, match=rf"a\.gguf: .*{message}"):
        Perceptron.open(path)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([layer_of(3, 2), layer_of(3, 2, last=True)],
         "layer 1 takes 2 activations; the one before it gives 3"),
        ([layer_of(3, 2, last=True), layer_of(1, 3, last=True)], "layer 0: all layers but"),
        ([layer_of(3, 2), layer_of(1, 3)], "layer 1: all layers but the last"),
        ([layer_of(3, 2, last=True)], "2 to 9 layers, not 1"),
        ([layer_of(1, 1)] * 9 + [layer_of(1, 1, last=True)], "2 to 9 layers, not 10"),
        ([layer_of(5000, 2), layer_of(1, 5000, last=True)], "more than 4096 inputs or outputs"),
        ([Layer(np.full((1, 99), 127, np.int8), np.array([0]), np.array([1 << 30])),
          layer_of(1, 1, last=True)], "a rescaled sum can have 28 bits, more than 16"),
        ([layer_of(1, 1), Layer(np.ones((1, 1), np.int8), np.array([(1 << 31) - 1]), None)],
         r"layer 1: the sums of a row can reach 2\^31"),
        ([Layer(np.zeros((2, 2)), np.zeros(2, int), np.ones(2, int)), layer_of(1, 2, last=True)],
         "the weights of layer 0 must be int8"),
        ([Layer(np.zeros((2, 2), np.int8), np.zeros(3, int), np.ones(2, int)),
          layer_of(1, 2, last=True)], "the biases of layer 0 must be 2 integers"),
        ([Layer(np.zeros((1, 1), np.int8), np.zeros(1, int), np.array([-1])),
          layer_of(1, 1, last=True)], "the multipliers of layer 0 must be from 0"),
        ([Layer(np.zeros((1, 1), np.int8), np.zeros(1, int), np.array([1.5])),
          layer_of(1, 1, last=True)], "the multipliers of layer 0 must be 1 integers"),
        ([Layer(np.zeros((1, 1), np.int8), np.array([(1 << 64) - 5], np.uint64), np.ones(1, int)),
          layer_of(1, 1, last=True)], "the biases of layer 0 must be from"),
        ([None, None], "layer 0 must be a Layer"),
    ],
)  # fmt: skip
def test_layers_that_are_refused(layers: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Perceptron(tuple(layers))


@pytest.mark.parametrize(
    "images",
    [np.full((1, 4), 128), np.full((1, 4), -1), np.zeros((0, 4), int), np.zeros((1, 3), int),
     np.zeros(4, int), np.zeros((1, 4)), [[0, 0, 0, 1 << 70]], None, "0000"],
)  # fmt: skip
def test_images_that_are_refused(images: object) -> None:
    with pytest.raises(InputError, match="images"):
        run("cpu", perceptron_of((4, 3, 2), seed=1), images)
