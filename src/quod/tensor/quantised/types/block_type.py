"""The record of a type of quantised blocks: a row of the table of types."""

from __future__ import annotations

from collections.abc import Callable

from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.quantised.decoders import BlockDecoder
from quod.tensor.quantised.packed import PackedDecoder
from quod.tensor.quantised.types.numpy_blocks import Bytes, Encoder, Floats


@frozen
class BlockScales:
    """The floating-point scales of a whole block.

    offset: the byte of a block where they start.
    dtype: NumPy's name of their type.
    centre: the mean of the integers if a second number, the scale of the minima, follows the
        scale; None if the scale is alone.
    """

    offset: int = 0
    dtype: str = "<f2"
    centre: float | None = None

    @property
    def count(self) -> int:
        """The number of scales in a block: 2 if the minima have a scale, else 1."""
        return 1 if self.centre is None else 2


@frozen
class VectorTimes:
    """Microseconds to multiply rows one after the other, as vectors.

    Measured with a matrix of 4096 x 4096 on an H200.

    first: the time of the first row.
    narrow: the time of each further row of f16 or bf16.
    wide: the time of each further row of f32.
    """

    first: float
    narrow: float
    wide: float


UNMEASURED = VectorTimes(9.8, 4.3, 8.3)
"""The times measured for NF4, also used for types that were not measured."""


@frozen(eq=False)
class BlockType:
    """A type of quantised blocks.

    decoder: the kernel form, with the size of a block.
    dequantise: the reference form, uint8 of shape (n, bytes) to f32 of shape (n, elements).
    scales: the position and type of a block's scales.
    quantise: the inverse of `dequantise`, f32 of shape (n, elements) to blocks; None if there is
        none.
    packed: the kernel form for activations of 8 bits; None if the values are not integers.
    vector_times: times of products by vectors on the device's FMA units.
    core_vector_times: times of products by vectors on tensor cores; None if `core_product` does
        not read this type.
    """

    decoder: BlockDecoder
    dequantise: Callable[[Bytes], Floats]
    scales: BlockScales
    quantise: Encoder | None = None
    packed: PackedDecoder | None = None
    vector_times: VectorTimes = UNMEASURED
    core_vector_times: VectorTimes | None = None

    @property
    def name(self) -> str:
        """The name of the type, as files and calls spell it."""
        return self.decoder.kind.name

    @property
    def elements(self) -> int:
        """Values of a block."""
        return self.decoder.elements

    @property
    def bytes(self) -> int:
        """Bytes of a block."""
        return self.decoder.bytes

    def packed_decoder(self) -> PackedDecoder:
        """Return `packed`; InputError for a type without it."""
        if self.packed is None:
            raise InputError(f"{self.name} has no form for activations of 8 bits; take exact ones")
        return self.packed
