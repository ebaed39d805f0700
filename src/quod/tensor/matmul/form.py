"""What a matrix product is besides its sizes."""

from __future__ import annotations

from typing import Protocol

from quod.frozen import frozen


class Turned(Protocol):
    """Whether operands are transposed."""

    @property
    def transpose_a(self) -> bool: ...
    @property
    def transpose_b(self) -> bool: ...


@frozen
class GemmForm:
    """What a product is besides its sizes: operands that are transposed, what is added, and the
    function that is applied between."""

    transpose_a: bool = False
    transpose_b: bool = False
    bias: bool = False
    residual: bool = False
    activation: str | None = None
