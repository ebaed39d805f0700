"""The form of a matrix product: transposed operands, and the terms of its epilogue."""

from __future__ import annotations

from typing import Protocol

from quod.frozen import frozen


class TransposeFlags(Protocol):
    """The transposition flags of the operands."""

    @property
    def transpose_a(self) -> bool: ...
    @property
    def transpose_b(self) -> bool: ...


@frozen
class GemmForm:
    """The form of a product, apart from sizes and types.

    transpose_a: A is stored as (k, m).
    transpose_b: B is stored as (n, k).
    bias: A bias is added to each row.
    residual: A residual is added to the result.
    activation: The name of the activation, or None.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    bias: bool = False
    residual: bool = False
    activation: str | None = None
