"""Evaluation of a perceptron on a device: 8-bit products with 32-bit sums."""

from __future__ import annotations

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import not_written
from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.perceptron import Layer, Numbers, Perceptron, check_images, clamped, rescaled
from quod.kernel import I8, I32, U32, Builder, Pointer, i32, kernel

_NOT_WRITTEN = -(1 << 31)


@kernel
def dense_sums(
    k: Builder, n: U32, outputs: U32, inputs: U32, weights: Pointer[I8], images: Pointer[I8],
    biases: Pointer[I32], sums: Pointer[I32],
) -> None:  # fmt: skip
    """Set sums[i] to bias + the dot product of an image and an output's weights, for i below n.

    The output is i % outputs, the image i // outputs.
    """
    i = k.global_id()
    with k.if_(i < n):
        image, output = i // outputs, i % outputs
        first_weight, first_input = output * inputs, image * inputs
        with k.range(0, inputs, carry=k.constant(0, i32)) as loop:
            product = weights[first_weight + loop.index] * images[first_input + loop.index]
            loop.next(loop.carried + product)
        sums[i] = biases[output] + loop.results


@frozen(eq=False)
class Activations:
    """The values that a perceptron computes for images, each array with a row per image.

    quotients: the rescaled sums, an array per hidden layer.
    remainders: the remainders of rescaling, an array per hidden layer.
    outputs: the activations, an array per hidden layer.
    logits: the outputs of the last layer.
    """

    quotients: tuple[Numbers, ...]
    remainders: tuple[Numbers, ...]
    outputs: tuple[Numbers, ...]
    logits: Numbers


def run(device: DeviceChoice, perceptron: Perceptron, images: object) -> Activations:
    """Compute all activations and the logits of images; results are equal on every device.

    images: integers in 0 to 127, a row per image; InputError for other values or shapes.
    """
    device = resolve_device(device)
    values = check_images(images, perceptron.layers[0].inputs)
    quotients, remainders, outputs = [], [], []
    for layer in perceptron.hidden:
        assert layer.multipliers is not None
        quotient, remainder = rescaled(_sums(device, layer, values), layer.multipliers)
        values = clamped(quotient)
        quotients.append(quotient)
        remainders.append(remainder)
        outputs.append(values)
    logits = _sums(device, perceptron.layers[-1], values)
    return Activations(tuple(quotients), tuple(remainders), tuple(outputs), logits)


def _sums(device: AnyDevice, layer: Layer, values: Numbers) -> Numbers:
    count = len(values) * layer.outputs
    if max(count, values.size) >= 1 << 31:
        raise InputError(f"{len(values)} images are too many for one proof")
    kernel = device.compile(dense_sums)
    output = device.upload(np.full(count, _NOT_WRITTEN, np.int32))
    device.launch(
        kernel, -(-count // kernel.lanes), count, layer.outputs, layer.inputs,
        device.upload(layer.weights), device.upload(values.astype(np.int8)),
        device.upload(layer.biases.astype(np.int32)), output,
    )  # fmt: skip
    sums = np.empty(count, np.int32)
    device.download(output, sums)
    if (sums == _NOT_WRITTEN).any():
        raise not_written(device, "the sums of a layer")
    return sums.astype(np.int64).reshape(len(values), layer.outputs)
