"""Tensor kernels: what neural networks are made of, of f32, f16 or bf16.

`softmax`, `rms_norm` and `layer_norm` are functions of rows, `silu`, `gelu` and `swiglu` of
elements, these with their gradients, and `gemm` multiplies matrices. All take arrays of NumPy,
buffers of devices and arrays of other libraries in place (docs/tensors.md); `quod.tensor.quantised`
has weights in the blocks of GGUF files. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.tensor.activations import gelu as gelu
    from quod.tensor.activations import gelu_backward as gelu_backward
    from quod.tensor.activations import silu as silu
    from quod.tensor.activations import silu_backward as silu_backward
    from quod.tensor.activations import swiglu as swiglu
    from quod.tensor.activations import swiglu_backward as swiglu_backward
    from quod.tensor.functions import layer_norm as layer_norm
    from quod.tensor.functions import rms_norm as rms_norm
    from quod.tensor.functions import softmax as softmax
    from quod.tensor.gemm_call import gemm as gemm

_ACTIVATIONS = (
    "gelu", "gelu_backward", "silu", "silu_backward", "swiglu", "swiglu_backward",
)  # fmt: skip

__all__ = [
    "gelu", "gelu_backward", "gemm", "layer_norm", "rms_norm", "silu", "silu_backward", "softmax",
    "swiglu", "swiglu_backward",
]  # fmt: skip

_HOME = (
    dict.fromkeys(__all__, "quod.tensor.functions")
    | dict.fromkeys(_ACTIVATIONS, "quod.tensor.activations")
    | {"gemm": "quod.tensor.gemm_call"}
)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
