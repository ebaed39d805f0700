"""Tensor kernels: what neural networks are made of, of f32, f16 or bf16.

`softmax`, `rms_norm` and `layer_norm` are functions of rows, `silu`, `gelu` and `swiglu` of
elements, all with their gradients, `gemm` multiplies matrices, `attention` weighs values by
queries and keys, with its gradient, and `attention_decode` and `paged_attention` are for few
queries. `cross_entropy` is a loss with its gradient. `embedding` picks rows, and `rope` turns pairs
by positions. `reduce_sum` and its like go along an axis, of which `argmax` gives places,
`transpose` turns axes, and `lora` adapts a layer. `adamw` takes a step of training, and
`clip_gradients` keeps it small. All take arrays of NumPy, buffers of devices and arrays of other
libraries in place (docs/tensors.md); `quod.tensor.quantised` has weights in the blocks of GGUF
files, `quod.tensor.torch` ops of PyTorch. The names below load on first use (PEP 562).
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
    from quod.tensor.adapters import lora as lora
    from quod.tensor.adapters import lora_backward as lora_backward
    from quod.tensor.attention_call import attention as attention
    from quod.tensor.attention_decode_call import attention_decode as attention_decode
    from quod.tensor.attention_gradients import attention_backward as attention_backward
    from quod.tensor.attention_pages import append_to_pages as append_to_pages
    from quod.tensor.attention_pages import paged_attention as paged_attention
    from quod.tensor.embeddings import embedding as embedding
    from quod.tensor.embeddings import embedding_backward as embedding_backward
    from quod.tensor.float8_call import dequantise_fp8 as dequantise_fp8
    from quod.tensor.float8_call import quantise_fp8 as quantise_fp8
    from quod.tensor.functions import layer_norm as layer_norm
    from quod.tensor.functions import rms_norm as rms_norm
    from quod.tensor.functions import softmax as softmax
    from quod.tensor.gemm_call import gemm as gemm
    from quod.tensor.gemm_float8_call import gemm_fp8 as gemm_fp8
    from quod.tensor.gemm_int8_call import gemm_int8 as gemm_int8
    from quod.tensor.gradients import clip_gradients as clip_gradients
    from quod.tensor.gradients import gradient_norm as gradient_norm
    from quod.tensor.loss import cross_entropy as cross_entropy
    from quod.tensor.optimiser import adamw as adamw
    from quod.tensor.optimiser import adamw_rates as adamw_rates
    from quod.tensor.reductions import argmax as argmax
    from quod.tensor.reductions import argmin as argmin
    from quod.tensor.reductions import reduce_max as reduce_max
    from quod.tensor.reductions import reduce_mean as reduce_mean
    from quod.tensor.reductions import reduce_min as reduce_min
    from quod.tensor.reductions import reduce_sum as reduce_sum
    from quod.tensor.rotary import rope as rope
    from quod.tensor.rotary import rope_backward as rope_backward
    from quod.tensor.rotary import rope_table as rope_table
    from quod.tensor.row_gradients import layer_norm_backward as layer_norm_backward
    from quod.tensor.row_gradients import rms_norm_backward as rms_norm_backward
    from quod.tensor.row_gradients import softmax_backward as softmax_backward
    from quod.tensor.transposition import transpose as transpose

_ACTIVATIONS = (
    "gelu", "gelu_backward", "silu", "silu_backward", "swiglu", "swiglu_backward",
)  # fmt: skip

_REDUCTIONS = ("argmax", "argmin", "reduce_max", "reduce_mean", "reduce_min", "reduce_sum")
_ROPE = ("rope", "rope_backward", "rope_table")
_GRADIENTS = ("layer_norm_backward", "rms_norm_backward", "softmax_backward")

__all__ = [
    "adamw", "adamw_rates", "append_to_pages", "argmax", "argmin", "attention",
    "attention_backward", "attention_decode", "clip_gradients", "cross_entropy",
    "dequantise_fp8", "embedding",
    "embedding_backward", "gelu", "gelu_backward", "gemm", "gemm_fp8", "gemm_int8",
    "gradient_norm", "layer_norm", "layer_norm_backward", "lora", "lora_backward",
    "paged_attention", "quantise_fp8", "reduce_max", "reduce_mean", "reduce_min", "reduce_sum",
    "rms_norm", "rms_norm_backward", "rope", "rope_backward", "rope_table", "silu", "silu_backward",
    "softmax", "softmax_backward", "swiglu", "swiglu_backward", "transpose",
]  # fmt: skip

_HOME = (
    dict.fromkeys(__all__, "quod.tensor.functions")
    | dict.fromkeys(_ACTIVATIONS, "quod.tensor.activations")
    | dict.fromkeys(("embedding", "embedding_backward"), "quod.tensor.embeddings")
    | dict.fromkeys(_REDUCTIONS, "quod.tensor.reductions")
    | dict.fromkeys(("append_to_pages", "paged_attention"), "quod.tensor.attention_pages")
    | dict.fromkeys(_ROPE, "quod.tensor.rotary")
    | dict.fromkeys(_GRADIENTS, "quod.tensor.row_gradients")
    | dict.fromkeys(("clip_gradients", "gradient_norm"), "quod.tensor.gradients")
    | dict.fromkeys(("adamw", "adamw_rates"), "quod.tensor.optimiser")
    | dict.fromkeys(("lora", "lora_backward"), "quod.tensor.adapters")
    | dict.fromkeys(("dequantise_fp8", "quantise_fp8"), "quod.tensor.float8_call")
    | {
        "attention": "quod.tensor.attention_call",
        "attention_backward": "quod.tensor.attention_gradients",
        "attention_decode": "quod.tensor.attention_decode_call",
        "cross_entropy": "quod.tensor.loss",
        "gemm": "quod.tensor.gemm_call", "gemm_fp8": "quod.tensor.gemm_float8_call",
        "gemm_int8": "quod.tensor.gemm_int8_call",
        "transpose": "quod.tensor.transposition",
    }
)  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _HOME)
