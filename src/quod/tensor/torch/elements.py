"""Activation functions, element by element."""

from __future__ import annotations

from torch import Tensor

from quod import tensor
from quod.tensor.elementwise.activations import Approximate
from quod.tensor.torch.library import Operator
from quod.tensor.torch.memory import empty_like, one_like


def silu(x: Tensor) -> Tensor:
    """Return x * sigmoid(x) of each element.

    See `quod.tensor.silu`, and `softmax` on accepted tensors.
    """
    return _SILU(x)


def gelu(x: Tensor, *, approximate: Approximate = "none") -> Tensor:
    """Return x * Phi(x) of each element, or its "tanh" approximation.

    See `quod.tensor.gelu`, and `softmax` on accepted tensors.
    """
    return _GELU(x, approximate)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Return silu(gate) * up of each element, both of one shape.

    See `quod.tensor.swiglu`, and `softmax` on accepted tensors.
    """
    return _SWIGLU(gate, up)


def _allocate_swiglu_gradients(gradient: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return one_like("gradient", "gate", "up")(gradient, gate, up), empty_like(up)


_SILU_BACKWARD = Operator(
    "silu_backward", "(Tensor gradient, Tensor x) -> Tensor", one_like("gradient", "x"),
    tensor.silu_backward,
)  # fmt: skip
_SILU = Operator(
    "silu", "(Tensor x) -> Tensor", one_like("x"), tensor.silu, keeps=lambda x, _: (x,),
    gradient=_SILU_BACKWARD,
)  # fmt: skip
_GELU_BACKWARD = Operator(
    "gelu_backward", "(Tensor gradient, Tensor x, str approximate) -> Tensor",
    one_like("gradient", "x"), tensor.gelu_backward,
)  # fmt: skip
_GELU = Operator(
    "gelu", "(Tensor x, str approximate) -> Tensor", one_like("x"), tensor.gelu,
    keeps=lambda x, approximate, _: (x, approximate), gradient=_GELU_BACKWARD,
)  # fmt: skip
_SWIGLU_BACKWARD = Operator(
    "swiglu_backward", "(Tensor gradient, Tensor gate, Tensor up) -> (Tensor, Tensor)",
    _allocate_swiglu_gradients, tensor.swiglu_backward,
)  # fmt: skip
_SWIGLU = Operator(
    "swiglu", "(Tensor gate, Tensor up) -> Tensor", one_like("gate", "up"), tensor.swiglu,
    keeps=lambda gate, up, _: (gate, up), gradient=_SWIGLU_BACKWARD,
)  # fmt: skip
