"""The static scales of a plan: fractional bits for each kind of value, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp

from quod.frozen import fields_of, frozen
from quod.inference.transformer.model import Model
from quod.inference.transformer.rounding import residual_bits

_ACTIVATION_BITS = 15 - 1
"""The bits of the largest activation of the calibration: one bit is spare."""
_WIDE_BITS = 23 - 3
"""Those of `hidden`, whose largest values differ most between texts: three bits are spare."""
_SPARE_RESIDUAL_BITS = 1
_MAX_BITS = 24
MAX_RESIDUAL_FRACTION = 16


@frozen
class LayerScales:
    """The fractional bits of the values of a layer: a value is an integer / 2**bits.

    attention_norm, feed_forward_norm: the outputs of the norms.
    query, key, value: the inputs of the attention.
    mixed: the outputs of the attention's heads.
    gate, activated, up: the inputs of SwiGLU's product, before and after the activation. Without a
        gate, `up` is the activation's input and the others are 0.
    hidden: the input of the last product, of 24 bits.
    """

    attention_norm: int
    query: int
    key: int
    value: int
    mixed: int
    feed_forward_norm: int
    gate: int
    activated: int
    up: int
    hidden: int


LAYER_VALUES = tuple(LayerScales.__annotations__)


@frozen
class Scales:
    """The fractional bits of a whole model.

    residual: those of the residual stream.
    norm: those of the last norm's outputs.
    layers: those of each layer.
    """

    residual: int
    norm: int
    layers: tuple[LayerScales, ...]

    def as_json(self) -> dict[str, object]:
        """Return the numbers as a plan file has them."""
        return {
            "residual": self.residual,
            "norm": self.norm,
            "layers": [list(fields_of(layer).values()) for layer in self.layers],
        }


def scales_of(largest: Mapping[str, float], model: Model) -> Scales:
    """Choose scales from the largest absolute values of a calibration.

    largest: by name: `residual`, `norm`, and for each layer `N.` and a name of `LayerScales`.
    A value has no more fractional bits than the sum that it is rounded from.
    """
    layers, residual_limits = [], [-model.embedding.exponent, MAX_RESIDUAL_FRACTION]
    if model.positions is not None:
        residual_limits.append(-model.positions.exponent)
    for index, layer in enumerate(model.layers):

        def bits(name: str, *limits: int, index: int = index) -> int:
            spare = _WIDE_BITS if name == "hidden" else _ACTIVATION_BITS
            return _fraction(largest.get(f"{index}.{name}", 0.0), spare, min(_MAX_BITS, *limits))

        normed = bits("attention_norm", _MAX_BITS)
        value = bits("value", normed - layer.value.matrix.exponent)
        mixed = bits("mixed", _MAX_BITS)
        fed = bits("feed_forward_norm", _MAX_BITS)
        up = bits("up", fed - layer.up.matrix.exponent)
        gate, activated, hidden_limit = 0, 0, _MAX_BITS
        if layer.gate is not None:
            gate = bits("gate", fed - layer.gate.matrix.exponent)
            activated = bits("activated", _MAX_BITS)
            hidden_limit = activated + up
        hidden = bits("hidden", hidden_limit)
        residual_limits.append(mixed - layer.output.matrix.exponent)
        residual_limits.append(hidden - layer.down.matrix.exponent)
        layers.append(
            LayerScales(
                normed, bits("query", normed - layer.query.matrix.exponent),
                bits("key", normed - layer.key.matrix.exponent), value, mixed, fed, gate, activated,
                up, hidden,
            )
        )  # fmt: skip
    residual_bits_of_width = residual_bits(model.architecture.width) - _SPARE_RESIDUAL_BITS
    residual = _fraction(largest["residual"], residual_bits_of_width, min(residual_limits))
    norm = _fraction(largest["norm"], _ACTIVATION_BITS, _MAX_BITS)
    return Scales(residual, norm, tuple(layers))


def _fraction(largest: float, bits: int, limit: int) -> int:
    """Return the fractional bits at which a value has at most `bits`, from 0 to a limit."""
    return max(0, min(limit, bits - frexp(largest)[1])) if largest else 0
