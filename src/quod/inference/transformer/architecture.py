"""The shape of a language model, from the metadata of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from quod.errors import InputError
from quod.formats.gguf.file import Gguf
from quod.formats.gguf.metadata import MetadataValue
from quod.frozen import frozen
from quod.names import NameTable
from quod.validation import shown

_MAX_LAYERS = 1 << 12
_MAX_WIDTH = 1 << 20
_MAX_CONTEXT = 1 << 20


@frozen
class Family:
    """An architecture of models.

    name: Its name in files.
    gated: Whether the feed-forward network multiplies by a gate (SwiGLU), or has one matrix (GELU).
    rotary: Whether positions rotate queries and keys, or are learned vectors.
    centred: Whether norms subtract the mean (LayerNorm), or do not (RMS norm).
    epsilon: The metadata key of the norms' epsilon.
    rotates_halves: Whether channels i and i + half of a head rotate together, or 2 i and 2 i + 1.
    """

    name: str
    gated: bool
    rotary: bool
    centred: bool
    epsilon: str
    rotates_halves: bool = False


FAMILIES: dict[str, Family] = NameTable(
    "quod.inference.transformer.FAMILIES", "an architecture",
    {
        "llama": Family("llama", True, True, False, "attention.layer_norm_rms_epsilon"),
        "qwen2": Family(
            "qwen2", True, True, False, "attention.layer_norm_rms_epsilon", rotates_halves=True
        ),
        "gpt2": Family("gpt2", False, False, True, "attention.layer_norm_epsilon"),
    },
)  # fmt: skip


@frozen
class Architecture:
    """The shape of a model.

    family: Its family.
    layers: The number of layers.
    context: The number of positions that the model was trained for.
    width: The channels of the residual stream.
    hidden: The channels of the feed-forward network.
    heads, kv_heads: The number of query heads, and of key and value heads.
    head_width: The channels of a head.
    epsilon: The norms' epsilon.
    rope_base: The base of rotary positions; 0 if positions are learned.
    """

    family: Family
    layers: int
    context: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    epsilon: float
    rope_base: float

    @property
    def kv_width(self) -> int:
        """The channels of all keys, or of all values, of a position."""
        return self.kv_heads * self.head_width

    @property
    def query_width(self) -> int:
        """The channels of all queries of a position."""
        return self.heads * self.head_width


def read_architecture(model: Gguf) -> Architecture:
    """Return the shape of a model.

    Raises InputError, with the file and the key, for an architecture that is not supported, and for
    missing, wrong or contradictory numbers.
    """
    reader = _Reader(model)
    name = model.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise InputError("has no architecture, so it is no language model", path=model.path)
    if name not in FAMILIES:
        raise InputError(
            f"has the architecture {shown(name)}; Quod runs {', '.join(FAMILIES)}",
            path=model.path, section="metadata 'general.architecture'",
        )  # fmt: skip
    family = FAMILIES[name]
    width = reader.count("embedding_length", _MAX_WIDTH)
    heads = reader.count("attention.head_count", width)
    kv_heads = reader.count("attention.head_count_kv", heads, default=heads)
    if heads % kv_heads:
        raise reader.error(
            "attention.head_count_kv", f"{heads} query heads do not share {kv_heads} key heads"
        )
    if width % heads:
        raise reader.error(
            "attention.head_count", f"{width} channels are not divided by {heads} heads"
        )
    head_width = reader.count("attention.key_length", _MAX_WIDTH, default=width // heads)
    if head_width % 2:
        raise reader.error("attention.head_count", f"heads of {head_width} channels are odd")
    if reader.count("attention.value_length", _MAX_WIDTH, default=head_width) != head_width:
        raise reader.error("attention.value_length", "keys and values have different lengths")
    if family.rotary:
        if reader.count("rope.dimension_count", _MAX_WIDTH, default=head_width) != head_width:
            raise reader.error("rope.dimension_count", "only a part of each head is rotated")
        if model.metadata.get(f"{name}.rope.scaling.type", "none") != "none":
            raise reader.error("rope.scaling.type", "scaled rotary positions are not supported")
    return Architecture(
        family,
        layers=reader.count("block_count", _MAX_LAYERS),
        context=reader.count("context_length", _MAX_CONTEXT),
        width=width,
        hidden=reader.count("feed_forward_length", _MAX_WIDTH),
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        epsilon=reader.number(family.epsilon, 0.0, 1.0),
        rope_base=reader.number("rope.freq_base", 1.0, 1e12, 10000.0) if family.rotary else 0.0,
    )


class _Reader:
    """A reader of the metadata of an architecture."""

    def __init__(self, model: Gguf) -> None:
        self._path = model.path
        self._metadata: Mapping[str, MetadataValue] = model.metadata
        self._prefix = str(model.metadata.get("general.architecture"))

    def count(self, key: str, limit: int, *, default: int | None = None) -> int:
        """Return a whole number from 1 to a limit."""
        value: Any = self._value(key, default)
        if isinstance(value, np.ndarray) and value.size and (value == value.flat[0]).all():
            value = value.flat[0]  # Some models have a number for each layer.
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise self.error(key, "is no whole number")
        if not 1 <= int(value) <= limit:
            raise self.error(key, f"is {int(value)}, which is not from 1 to {limit}")
        return int(value)

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Return a number above `low` and at most `high`."""
        value: Any = self._value(key, default)
        if not isinstance(value, (float, np.floating)):
            raise self.error(key, "is no number")
        number = float(value)
        if not (math.isfinite(number) and low < number <= high):
            raise self.error(key, f"is {number}, which is not above {low:g} and at most {high:g}")
        return number

    def _value(self, key: str, default: object) -> object:
        value = self._metadata.get(f"{self._prefix}.{key}", default)
        if value is None:
            raise self.error(key, "is missing; the model is incomplete")
        return value

    def error(self, key: str, message: str) -> InputError:
        """Return the error of a key."""
        return InputError(message, path=self._path, section=f"metadata '{self._prefix}.{key}'")
