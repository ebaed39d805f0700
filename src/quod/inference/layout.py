"""The layout of a proof's tables: sizes of layers, columns of activations, and the weights.

All sizes are padded to powers of two. The upper bits of an activation's index are the image's
index; the upper bits of a weight's index are the output's index, its row.
"""

from __future__ import annotations

from functools import cached_property

from quod.frozen import frozen
from quod.inference.perceptron import SHIFT
from quod.sumcheck.verifier import MAX_VARIABLES

LIMB_BITS = SHIFT // 2
"""Bits of each of the two limbs of a remainder."""

QUOTIENT, OUTPUT, LOW, HIGH = range(4)
"""Indices of a hidden layer's columns: rescaled sums, activations, and limbs of remainders."""

COLUMNS = 4


def log2_up(count: int) -> int:
    """Return log2 of the smallest power of two that is at least `count` and at least 2."""
    return max(1, (count - 1).bit_length())


@frozen
class ProofLayout:
    """The sizes of a proof; names with `log_` are base-2 logarithms of padded counts.

    widths: the number of inputs, then the number of outputs of each layer.
    table_bits: the base-2 logarithm of the number of entries of the activation table.
    images: the number of images.
    """

    widths: tuple[int, ...]
    table_bits: int
    images: int

    @property
    def hidden(self) -> int:
        """The number of hidden layers."""
        return len(self.widths) - 2

    @property
    def log_images(self) -> int:
        return log2_up(self.images)

    @property
    def log_hidden(self) -> int:
        """Base-2 logarithm of the outputs of a hidden layer, padded to the widest."""
        return log2_up(max(self.widths[1:-1]))

    @property
    def log_activations(self) -> int:
        """Base-2 logarithm of the outputs of a hidden layer for all images."""
        return self.log_images + self.log_hidden

    def log_rows(self, layer: int) -> int:
        """Base-2 logarithm of the outputs of a layer."""
        return self.log_hidden if layer < self.hidden else log2_up(self.widths[-1])

    def log_columns(self, layer: int) -> int:
        """Base-2 logarithm of the inputs of a layer."""
        return self.log_hidden if layer else log2_up(self.widths[0])

    # --- the committed activations

    @property
    def log_block(self) -> int:
        """Base-2 logarithm of the entries of each column of the committed table."""
        return max(self.log_activations, self.table_bits, LIMB_BITS)

    @property
    def log_blocks(self) -> int:
        """Base-2 logarithm of the number of columns, with the two of multiplicities."""
        return log2_up(COLUMNS * self.hidden + 2)

    @property
    def fits(self) -> bool:
        """True if the committed table of activations has at most `MAX_VARIABLES` variables."""
        return self.log_block + self.log_blocks <= MAX_VARIABLES

    def column(self, layer: int, which: int) -> int:
        """Return the index of a hidden layer's column `which`, one of `QUOTIENT` to `HIGH`."""
        return COLUMNS * layer + which

    @property
    def pair_counts(self) -> int:
        """The index of the column with the multiplicities of pairs."""
        return COLUMNS * self.hidden

    @property
    def limb_counts(self) -> int:
        """The index of the column with the multiplicities of limbs."""
        return COLUMNS * self.hidden + 1

    # --- the committed weights

    @cached_property
    def weight_offsets(self) -> tuple[int, ...]:
        """The index of each layer's first weight in the table of weights.

        Larger layers come first, so that each layer begins at a multiple of its size.
        """
        layers = range(self.hidden + 1)
        offsets, offset = [0] * len(layers), 0
        for layer in sorted(layers, key=lambda each: -self.log_weights_of(each)):
            offsets[layer] = offset
            offset += 1 << self.log_weights_of(layer)
        return tuple(offsets)

    def log_weights_of(self, layer: int) -> int:
        """Base-2 logarithm of the weights of a layer."""
        return self.log_rows(layer) + self.log_columns(layer)

    @property
    def log_weights(self) -> int:
        """Base-2 logarithm of the weights of all layers."""
        return log2_up(sum(1 << self.log_weights_of(each) for each in range(self.hidden + 1)))
