"""What a matrix product is besides its sizes."""

from __future__ import annotations

from quod.frozen import frozen


@frozen
class GemmForm:
    """What a product is besides its sizes: operands that are transposed, what is added, and the
    function that is applied between."""

    transpose_a: bool = False
    transpose_b: bool = False
    bias: bool = False
    residual: bool = False
    activation: str | None = None
