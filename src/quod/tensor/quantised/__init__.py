"""Weights in blocks of quantised values, as in GGUF files: their values, and products.

`dequantise` and `quantise` are the reference, in NumPy; `QuantisedMatrix` computes on any device.
The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.tensor.quantised.matrix import ProductLayout as ProductLayout
    from quod.tensor.quantised.matrix import QuantisedMatrix as QuantisedMatrix
    from quod.tensor.quantised.reference import BLOCK_TYPES as BLOCK_TYPES
    from quod.tensor.quantised.reference import dequantise as dequantise
    from quod.tensor.quantised.reference import quantise as quantise
    from quod.tensor.quantised.types.nf4 import NF4_LEVELS as NF4_LEVELS
    from quod.tensor.quantised.types.nf4 import nf4_blocks as nf4_blocks
else:
    __getattr__, __dir__ = lazy_names(__name__)
