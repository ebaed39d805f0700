"""Tensor kernels: what neural networks are made of, of f32, f16 or bf16.

`gemm`, `softmax`, `rms_norm` and `layer_norm` take arrays of NumPy, buffers of devices and arrays
of other libraries in place (docs/tensors.md); `quod.tensor.quantised` has weights in the blocks of
GGUF files. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.tensor.functions import layer_norm as layer_norm
    from quod.tensor.functions import rms_norm as rms_norm
    from quod.tensor.functions import softmax as softmax
    from quod.tensor.gemm_call import gemm as gemm

__all__ = ["gemm", "layer_norm", "rms_norm", "softmax"]

_HOME = dict.fromkeys(__all__, "quod.tensor.functions") | {"gemm": "quod.tensor.gemm_call"}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
