"""Where the numbers of a proof stand: sizes of layers, columns of activations, and the weights.

All sizes are padded to powers of two. An activation's place has the image's number in its upper
bits; a weight's the output's, the row.
"""

from __future__ import annotations

from functools import cached_property

from quod.frozen import frozen
from quod.inference.perceptron import SHIFT
from quod.sumcheck.verifier import MOST_VARIABLES

LIMB_BITS = SHIFT // 2
"""Of the two limbs of a remainder."""

QUOTIENT, OUTPUT, LOW, HIGH = range(4)
"""A hidden layer's columns: rescaled sums, activations, and limbs of the remainders."""

COLUMNS = 4


def log2_up(count: int) -> int:
    """The logarithm of the least power of two from 2 on that is not below a count."""
    return max(1, (count - 1).bit_length())


@frozen
class Places:
    """Sizes of a perceptron of so many `widths`, inputs first, and of a number of `images`."""

    widths: tuple[int, ...]
    table_bits: int
    images: int

    @property
    def hidden(self) -> int:
        """Hidden layers."""
        return len(self.widths) - 2

    @property
    def log_images(self) -> int:
        return log2_up(self.images)

    @property
    def log_hidden(self) -> int:
        """Of the outputs of each hidden layer."""
        return log2_up(max(self.widths[1:-1]))

    @property
    def log_activations(self) -> int:
        """Of a hidden layer's outputs of all images."""
        return self.log_images + self.log_hidden

    def log_rows(self, layer: int) -> int:
        """Of a layer's outputs."""
        return self.log_hidden if layer < self.hidden else log2_up(self.widths[-1])

    def log_columns(self, layer: int) -> int:
        """Of a layer's inputs."""
        return self.log_hidden if layer else log2_up(self.widths[0])

    # --- what is committed of the activations

    @property
    def log_block(self) -> int:
        """Of each column, and of the multiplicities of a table."""
        return max(self.log_activations, self.table_bits, LIMB_BITS)

    @property
    def log_blocks(self) -> int:
        """Of the columns of all layers and the two of multiplicities."""
        return log2_up(COLUMNS * self.hidden + 2)

    @property
    def fits(self) -> bool:
        """Whether the committed table of activations has no more variables than allowed."""
        return self.log_block + self.log_blocks <= MOST_VARIABLES

    def column(self, layer: int, which: int) -> int:
        """The number of a column."""
        return COLUMNS * layer + which

    @property
    def pair_counts(self) -> int:
        """The column of the multiplicities of pairs."""
        return COLUMNS * self.hidden

    @property
    def limb_counts(self) -> int:
        """The column of the multiplicities of limbs."""
        return COLUMNS * self.hidden + 1

    # --- what is committed of the weights

    @cached_property
    def weight_offsets(self) -> tuple[int, ...]:
        """Where each layer's weights begin: the larger ones first, so that each is at a multiple
        of its size."""
        layers = range(self.hidden + 1)
        offsets, offset = [0] * len(layers), 0
        for layer in sorted(layers, key=lambda each: -self.log_weights_of(each)):
            offsets[layer] = offset
            offset += 1 << self.log_weights_of(layer)
        return tuple(offsets)

    def log_weights_of(self, layer: int) -> int:
        """Of a layer's weights."""
        return self.log_rows(layer) + self.log_columns(layer)

    @property
    def log_weights(self) -> int:
        """Of all weights."""
        return log2_up(sum(1 << self.log_weights_of(each) for each in range(self.hidden + 1)))
