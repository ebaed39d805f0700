"""The functions of `quod.tensor` as PyTorch ops, with gradients and `torch.compile`.

They take and return PyTorch tensors, and compute on their device: the CPU, or the GPU with their
index (docs/tensors.md, "From PyTorch"). A call that is neither differentiated nor compiled goes to
the function of `quod.tensor` directly; others go through ``torch.ops.quod``.
"""

from __future__ import annotations

from quod.errors import QuodError
from quod.extras import installation

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise QuodError(
        f"quod.tensor.torch needs PyTorch, which is not installed: {installation('torch')}"
    ) from None

from quod.tensor.torch.elements import gelu, silu, swiglu
from quod.tensor.torch.floats8 import dequantise_fp8, gemm_fp8, quantise_fp8
from quod.tensor.torch.heads import attention
from quod.tensor.torch.lookups import embedding
from quod.tensor.torch.losses import cross_entropy
from quod.tensor.torch.positions import rope
from quod.tensor.torch.products import gemm, linear
from quod.tensor.torch.rows import layer_norm, rms_norm, softmax

__all__ = [
    "softmax", "rms_norm", "layer_norm", "silu", "gelu", "swiglu", "rope", "gemm", "linear",
    "attention", "cross_entropy", "embedding", "quantise_fp8", "dequantise_fp8", "gemm_fp8",
]  # fmt: skip
