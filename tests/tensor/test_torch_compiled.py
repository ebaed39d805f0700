"""Ops of PyTorch as its compiler, its modes and its transforms see them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from quod.errors import InputError
from quod.tensor import rope_table
from quod.tensor import torch as ops
from tests.support.thorough import one_and_others

X, VECTOR = torch.arange(24.0).view(3, 8) / 7, torch.arange(8.0) / 5
HEADS, FEW_HEADS = torch.arange(80.0).view(1, 2, 5, 8).cos(), torch.arange(56.0).view(1, 1, 7, 8)
TURNS, PICKED = torch.from_numpy(rope_table(5, 8)), torch.tensor([2, 0, 2])
X8, SCALES = X.to(torch.float8_e4m3fn), torch.ones(3)
LOSS = (X, PICKED, -100, "mean")
OPS: dict[str, tuple[Any, ...]] = {
    "softmax": (X,),
    "rms_norm": (X, VECTOR, 1e-6),
    "layer_norm": (X, VECTOR, VECTOR, 1e-5),
    "silu": (X,),
    "gelu": (X, "tanh"),
    "swiglu": (X, X),
    "rope": (HEADS, TURNS, "halves", -2),
    "gemm": (X, X, VECTOR[:3], None, 2.0, False, True),
    "attention": (HEADS, FEW_HEADS.cos(), FEW_HEADS.sin(), torch.tensor([6]), None, True),
    "cross_entropy": LOSS,
    "embedding": (X, PICKED),
    "quantise_fp8": (X, "e5m2", "rows"),
    "dequantise_fp8": (X8, SCALES, torch.bfloat16),
    "gemm_fp8": (X8, X8, SCALES, None, VECTOR[:3], False, True, False, torch.float32),
}
WITHOUT_GRADIENTS = (TURNS, X8, SCALES)
GRADIENTS: dict[str, tuple[Any, ...]] = {
    "softmax_backward": (X, X),
    "rms_norm_backward": (X, X, VECTOR, 1e-6),
    "layer_norm_backward": (X, X, VECTOR, 1e-5),
    "silu_backward": (X, X),
    "gelu_backward": (X, X, "none"),
    "swiglu_backward": (X, X, X),
    "rope_backward": (HEADS, TURNS, "halves", -2),
    "attention_backward": (
        HEADS, HEADS, FEW_HEADS, FEW_HEADS, HEADS, HEADS[..., 0], None, None, False
    ),
    "cross_entropy_backward": (torch.ones(()), *LOSS),
    "embedding_backward": (X, PICKED, 4),
}  # fmt: skip

ASKED = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"
)  # fmt: skip


def op_of(name: str) -> Any:
    return getattr(torch.ops.quod, name).default


def test_all_registered_ops_are_tested() -> None:
    registered = {
        name.removeprefix("quod::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("quod::")
    }
    assert registered == {*OPS, *GRADIENTS}


@pytest.mark.parametrize("name", one_and_others(OPS, [name for name in OPS if name != "gemm_fp8"]))
def test_ops_pass_opcheck(name: str) -> None:
    """Schemas, registrations, shapes without memory, and compilation with its gradient."""
    arguments = [
        each.clone().requires_grad_()
        if isinstance(each, torch.Tensor)
        and each.is_floating_point()
        and name != "quantise_fp8"
        and all(each is not other for other in WITHOUT_GRADIENTS)
        else each
        for each in OPS[name]
    ]
    # PyTorch compares no 8-bit floats before and after, for its look at schemas.
    tests = ASKED[1:] if any(each is X8 for each in OPS[name]) else ASKED
    outcomes = torch.library.opcheck(op_of(name), tuple(arguments), test_utils=tests)
    assert set(outcomes.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_pass_opcheck(name: str) -> None:
    tests = ASKED[:-1]
    outcomes = torch.library.opcheck(op_of(name), GRADIENTS[name], test_utils=tests)
    assert set(outcomes.values()) == {"SUCCESS"}


def test_shapes_are_known_without_memory() -> None:
    x = torch.ones(3, 8, device="meta", dtype=torch.bfloat16)
    y = ops.softmax(x.t())
    assert (y.shape, y.dtype, y.is_meta, y.is_contiguous()) == ((8, 3), x.dtype, True, True)
    with pytest.raises(InputError, match=r"summed axis of b has 3 elements, but that of a has 8$"):
        ops.gemm(x, x)
    with FakeTensorMode() as mode:
        fake_heads = mode.from_tensor(HEADS)
        assert ops.attention(fake_heads, fake_heads, fake_heads).shape == HEADS.shape


class Block(torch.nn.Module):  # type: ignore[misc]
    """A transformer of one block, in which each function has a part."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        for name, shape in {
            "table": (11, 16), "first": (16,), "second": (16,), "bias": (16,), "q": (16, 16),
            "k": (8, 16), "v": (8, 16), "o": (16, 16), "gate": (24, 16), "up": (24, 16),
            "down": (16, 24),
        }.items():  # fmt: skip
            weight = torch.nn.Parameter(0.3 * torch.randn(shape, generator=draw))
            self.register_parameter(name, weight)

    def forward(self, tokens: Any, turns: Any) -> Any:
        x = ops.embedding(self.table, tokens[:, :-1])
        y = ops.rms_norm(x, self.first)
        q, k, v = (
            ops.linear(y, weight).unflatten(-1, (-1, 4)).transpose(1, 2)
            for weight in (self.q, self.k, self.v)
        )
        seen = ops.attention(ops.rope(q, turns), ops.rope(k, turns), v, causal=True)
        x = x + ops.linear(seen.transpose(1, 2).flatten(2), self.o)
        y = ops.layer_norm(x, self.second, self.bias)
        x = x + ops.linear(ops.swiglu(ops.linear(y, self.gate), ops.linear(y, self.up)), self.down)
        x = ops.gelu(x) + ops.silu(x) * ops.softmax(x)
        return ops.cross_entropy(ops.linear(x, self.table), tokens[:, 1:])


@pytest.mark.thorough
def test_a_compiled_model_of_dynamic_length() -> None:
    """One graph for all lengths, and the bits of calls that nobody compiled."""
    # Loading it takes seconds, which no other test needs.
    from torch._dynamo.testing import CompileCounterWithBackend

    model, counter = Block(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for length in (5, 6, 9):
        tokens = torch.arange(2 * (length + 1)).view(2, -1) * 7 % 11
        turns = torch.from_numpy(rope_table(length, 4))
        torch._dynamo.mark_dynamic(tokens, 1)
        torch._dynamo.mark_dynamic(turns, 0)
        runs = []
        for call in (model, compiled):
            model.zero_grad()
            loss = call(tokens, turns)
            loss.backward()
            runs.append([loss, *(each.grad.clone() for each in model.parameters())])
        assert all(map(torch.equal, *runs))
        with torch.no_grad():
            assert torch.equal(compiled(tokens, turns), runs[0][0])
    assert counter.frame_count == 2  # with gradients, and without


@pytest.mark.thorough
def test_errors_of_compiled_calls() -> None:
    compiled = torch.compile(ops.embedding, fullgraph=True, backend="aot_eager")
    with pytest.raises(InputError, match=r"^indices\[1\] is 3, and the 3 rows"):
        compiled(X, torch.tensor([0, 3]))


def test_recorded_calls_are_ops() -> None:
    graph = make_fx(lambda x: ops.softmax(x))(X)
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [
        op_of("softmax")
    ]


def test_transforms_of_functions() -> None:
    assert torch.equal(torch.vmap(ops.silu)(X), ops.silu(X))
    with pytest.raises(InputError, match=r"no derivatives along tangents$"):
        torch.func.jvp(ops.silu, (X,), (X,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, X)
        with pytest.raises(InputError, match=r"no derivatives along tangents$"):
            ops.silu(dual)
        assert torch.equal(ops.silu(X), ops.silu(X))
