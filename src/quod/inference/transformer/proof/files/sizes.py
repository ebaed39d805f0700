"""The sizes of a model in a key's header, and the numbers that follow from them."""

from __future__ import annotations

from quod.formats.iden3 import SectionReader
from quod.frozen import frozen

MAX_LAYERS = 1 << 12
_MAX_WIDTH = 1 << 20
_MAX_TOKENS = (1 << 31) - 1
_LIMITS = {
    "layers": MAX_LAYERS, "width": _MAX_WIDTH, "hidden": _MAX_WIDTH, "heads": _MAX_WIDTH,
    "kv_heads": _MAX_WIDTH, "head_width": _MAX_WIDTH, "vocabulary": _MAX_TOKENS,
    "context": 1 << 20,
}  # fmt: skip
"""The largest value of each size: those of `read_architecture`, and of a token."""

PRODUCTS = ("query", "key", "value", "output", "gate", "up", "down")
"""The products of a layer, in the order of their biases in a file."""


@frozen
class Sizes:
    """The sizes of a model, by the names of `Key`'s fields and in their order."""

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    context: int

    @property
    def norms(self) -> int:
        """The number of norms."""
        return 2 * self.layers + 1

    def rows(self, product: str) -> int:
        """Return the number of rows of a product's matrix."""
        return {
            "query": self.heads * self.head_width, "key": self.kv_heads * self.head_width,
            "value": self.kv_heads * self.head_width, "output": self.width, "gate": self.hidden,
            "up": self.hidden, "down": self.width,
        }[product]  # fmt: skip


def read_sizes(header: SectionReader) -> Sizes:
    """Read the sizes as `read_architecture` limits them; InputError with the offset otherwise."""
    start = header.offset
    sizes = Sizes(*[header.number(name, 1, limit) for name, limit in _LIMITS.items()])
    for is_right, message in (
        (sizes.heads <= sizes.width and sizes.width % sizes.heads == 0,
         f"{sizes.width} channels are not divided by {sizes.heads} heads"),
        (sizes.heads % sizes.kv_heads == 0,
         f"{sizes.heads} query heads do not share {sizes.kv_heads} key heads"),
        (sizes.head_width % 2 == 0, f"heads of {sizes.head_width} channels are odd"),
    ):  # fmt: skip
        if not is_right:
            header.fail(message, start)
    return sizes
