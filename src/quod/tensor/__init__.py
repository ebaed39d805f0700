"""Tensor kernels for neural networks, in f32, f16 or bf16.

- Rows: `softmax`, `rms_norm` and `layer_norm`, with their gradients.
- Elements: `silu`, `gelu` and `swiglu`, with their gradients.
- Products: `gemm`, `gemm_int8`, `gemm_fp8`, and `lora` for low-rank adapters.
- Attention: `attention` with its gradient; `attention_decode` and `paged_attention` for few
  queries.
- Embeddings: `embedding` for lookups, `rope` for rotary positions.
- Axes: `reduce_sum`, `reduce_mean`, `reduce_max`, `reduce_min`, `argmax`, `argmin`, `transpose`.
- Training: `cross_entropy` with its gradient, `adamw`, `clip_gradients`.

All take NumPy arrays, device buffers and arrays of other libraries in place (docs/tensors.md).
`quod.tensor.quantised` has weights in the blocks of GGUF files, `quod.tensor.torch` PyTorch ops.
The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.tensor.elementwise.activations import gelu as gelu
    from quod.tensor.elementwise.activations import gelu_backward as gelu_backward
    from quod.tensor.elementwise.activations import silu as silu
    from quod.tensor.elementwise.activations import silu_backward as silu_backward
    from quod.tensor.elementwise.activations import swiglu as swiglu
    from quod.tensor.elementwise.activations import swiglu_backward as swiglu_backward
    from quod.tensor.embeddings.call import embedding as embedding
    from quod.tensor.embeddings.call import embedding_backward as embedding_backward
    from quod.tensor.embeddings.rotary import rope as rope
    from quod.tensor.embeddings.rotary import rope_backward as rope_backward
    from quod.tensor.embeddings.rotary import rope_table as rope_table
    from quod.tensor.flash_attention.backward.call import attention_backward as attention_backward
    from quod.tensor.flash_attention.call import attention as attention
    from quod.tensor.flash_attention.decode.call import attention_decode as attention_decode
    from quod.tensor.flash_attention.pages import append_to_pages as append_to_pages
    from quod.tensor.flash_attention.pages import paged_attention as paged_attention
    from quod.tensor.float8_call import dequantise_fp8 as dequantise_fp8
    from quod.tensor.float8_call import quantise_fp8 as quantise_fp8
    from quod.tensor.matmul.call import gemm as gemm
    from quod.tensor.matmul.float8_call import gemm_fp8 as gemm_fp8
    from quod.tensor.matmul.int8_call import gemm_int8 as gemm_int8
    from quod.tensor.permute.transposition import transpose as transpose
    from quod.tensor.reductions.call import argmax as argmax
    from quod.tensor.reductions.call import argmin as argmin
    from quod.tensor.reductions.call import reduce_max as reduce_max
    from quod.tensor.reductions.call import reduce_mean as reduce_mean
    from quod.tensor.reductions.call import reduce_min as reduce_min
    from quod.tensor.reductions.call import reduce_sum as reduce_sum
    from quod.tensor.rows.cross_entropy import cross_entropy as cross_entropy
    from quod.tensor.rows.functions import layer_norm as layer_norm
    from quod.tensor.rows.functions import rms_norm as rms_norm
    from quod.tensor.rows.functions import softmax as softmax
    from quod.tensor.rows.gradients import layer_norm_backward as layer_norm_backward
    from quod.tensor.rows.gradients import rms_norm_backward as rms_norm_backward
    from quod.tensor.rows.gradients import softmax_backward as softmax_backward
    from quod.tensor.training.clipping import clip_gradients as clip_gradients
    from quod.tensor.training.clipping import gradient_norm as gradient_norm
    from quod.tensor.training.low_rank import lora as lora
    from quod.tensor.training.low_rank import lora_backward as lora_backward
    from quod.tensor.training.optimiser import adamw as adamw
    from quod.tensor.training.optimiser import adamw_rates as adamw_rates
else:
    __getattr__, __dir__ = lazy_names(__name__)
