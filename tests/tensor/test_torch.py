"""Ops of PyTorch: results and gradients against PyTorch's own in float64, and how calls go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch

from quod.tensor import rope_table
from quod.tensor import torch as ops
from quod.tensor.torch import heads, losses, products, rows
from quod.tensor.torch.memory import call

F = torch.nn.functional
UNIT = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


class Case(NamedTuple):
    """A function, PyTorch's own, and the shapes of the tensors that they take."""

    call: Callable[..., Any]
    exact: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def table(tokens: int, turned: int) -> Any:
    return torch.from_numpy(rope_table(tokens, turned))


def turned(x: Any, turns: Any, *, interleaved: bool = False) -> Any:
    """Pairs as complex numbers, which are multiplied."""
    half = turns.shape[-1] // 2
    part, unrotated = x[..., : 2 * half], x[..., 2 * half :]
    pairs = part.unflatten(-1, (half, 2) if interleaved else (2, half))
    a, b = pairs.unbind(-1 if interleaved else -2)
    cos, sin = turns[:, :half], turns[:, half:]
    rotated = torch.stack((a * cos - b * sin, b * cos + a * sin), -1 if interleaved else -2)
    return torch.cat((rotated.flatten(-2), unrotated), -1)


def attended(q: Any, k: Any, v: Any, *, scale: float, causal: bool = False, lengths: Any = None):  # type: ignore[no-untyped-def]
    """Attention with a matrix of weights; a query that sees no key gives 0."""
    shared = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3)
    queries, keys = q.shape[-2], k.shape[-2]
    ends = torch.full((1, 1), keys) if lengths is None else lengths.clamp(max=keys).view(-1, 1)
    last = ends + torch.arange(1 - queries, 1) if causal else ends.expand(-1, queries)
    seen = torch.arange(keys) < last.view(-1, 1, queries, 1)
    weights = torch.softmax((scale * q @ k.mT).masked_fill(~seen, -1e9), -1) * seen
    return weights @ v


def masked(q: Any, k: Any, v: Any, seen: Any, bias: Any = 0) -> Any:
    """Attention with a mask of booleans and numbers that are added to the logits."""
    shared = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3)
    weights = (q @ k.mT / q.shape[-1] ** 0.5 + bias).masked_fill(~seen, -1e9)
    return torch.softmax(weights, -1) * seen @ v


def masked_causally(q: Any, k: Any, v: Any, mask: Any) -> Any:
    queries, keys = q.shape[-2], k.shape[-2]
    return masked(q, k, v, torch.ones(queries, keys).tril(keys - queries).bool(), mask)


def within(k: Any, lengths: Any) -> Any:
    ends = lengths.clamp(max=k.shape[-2]).view(-1, 1, 1, 1)
    return torch.arange(k.shape[-2]) < ends


def product(transpose_a: bool, transpose_b: bool) -> Callable[..., Any]:
    def exact(a: Any, b: Any, bias: Any = 0, residual: Any = 0) -> Any:
        a, b = a.mT if transpose_a else a, b.mT if transpose_b else b
        return 0.5 * (a @ b) + bias + residual

    return exact


def multiplied(transpose_a: bool, transpose_b: bool) -> Callable[..., Any]:
    def call(a: Any, b: Any, bias: Any = None, residual: Any = None) -> Any:
        return ops.gemm(
            a, b, bias=bias, residual=residual, scale=0.5, transpose_a=transpose_a,
            transpose_b=transpose_b,
        )  # fmt: skip

    return call


TURNS, FEW_TURNS = table(5, 8), table(5, 4)
LENGTHS = torch.tensor([3, 9, 0])
TARGETS = torch.tensor([[0, 6, -100], [3, 3, 1]])
PICKED = torch.tensor([[2, 0, 2], [2, 5, 1]])
HEADS = ((3, 4, 5, 8), (3, 2, 7, 8), (3, 2, 7, 8))
MASK = torch.arange(3 * 5 * 7).view(3, 1, 5, 7) % 11 < 6
MASK[1, 0, 2] = False


def loss(reduction: str) -> Case:
    def exact(x: Any) -> Any:
        losses = F.cross_entropy(x.flatten(0, 1), TARGETS.flatten(), reduction=reduction)
        return losses.view(TARGETS.shape) if reduction == "none" else losses

    call: Any = lambda x: ops.cross_entropy(x, TARGETS, reduction=reduction)  # noqa: E731
    return Case(call, exact, ((2, 3, 7),))


CASES = {
    "softmax": Case(ops.softmax, lambda x: torch.softmax(x, -1), ((3, 5, 9),)),
    "softmax of an inner axis": Case(
        lambda x: ops.softmax(x, dim=-2), lambda x: torch.softmax(x, -2), ((3, 5, 9),)
    ),
    "softmax of the first axis": Case(
        lambda x: ops.softmax(x, 0), lambda x: torch.softmax(x, 0), ((3, 5, 9),)
    ),
    "rms norm": Case(
        lambda x, w: ops.rms_norm(x, w, epsilon=1e-3),
        lambda x, w: F.rms_norm(x, (9,), w, 1e-3), ((3, 5, 9), (9,)),
    ),
    "layer norm": Case(
        lambda x, w, b: ops.layer_norm(x, w, b, epsilon=1e-3),
        lambda x, w, b: F.layer_norm(x, (9,), w, b, 1e-3), ((70, 9), (9,), (9,)),
    ),
    "silu": Case(ops.silu, F.silu, ((3, 65),)),
    "gelu": Case(ops.gelu, F.gelu, ((3, 65),)),
    "gelu tanh": Case(
        lambda x: ops.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"),
        ((65,),),
    ),
    "swiglu": Case(ops.swiglu, lambda gate, up: F.silu(gate) * up, ((3, 65), (3, 65))),
    "rope": Case(lambda x: ops.rope(x, TURNS), lambda x: turned(x, TURNS), ((2, 3, 5, 8),)),
    "rope interleaved": Case(
        lambda x: ops.rope(x, FEW_TURNS, pairs="interleaved", axis=-3),
        lambda x: turned(x.transpose(1, 2), FEW_TURNS, interleaved=True).transpose(1, 2),
        ((2, 5, 3, 8),),
    ),
    **{
        f"gemm {'nt'[turn_a]}{'nt'[turn_b]}{' shared' * shared}{' with more' * extras}": Case(
            multiplied(turn_a, turn_b), product(turn_a, turn_b),
            (
                (2, *((5, 3) if turn_a else (3, 5))),
                (*(() if shared else (2,)), *((4, 5) if turn_b else (5, 4))),
                *(((4,), (2, 3, 4)) if extras else ()),
            ),
        )
        for turn_a in (False, True) for turn_b in (False, True)
        for shared, extras in ((False, False), (True, True))
    },
    "linear": Case(ops.linear, F.linear, ((2, 3, 5), (4, 5), (4,))),
    "linear of a vector": Case(ops.linear, F.linear, ((5,), (4, 5))),
    "attention": Case(
        lambda q, k, v: ops.attention(q, k, v, scale=0.4),
        lambda q, k, v: attended(q, k, v, scale=0.4), HEADS,
    ),
    "attention causal": Case(
        lambda q, k, v: ops.attention(q, k, v, causal=True),
        lambda q, k, v: attended(q, k, v, scale=8**-0.5, causal=True), HEADS,
    ),
    "attention lengths": Case(
        lambda q, k, v: ops.attention(q, k, v, causal=True, lengths=LENGTHS),
        lambda q, k, v: attended(q, k, v, scale=8**-0.5, causal=True, lengths=LENGTHS), HEADS,
    ),
    "attention mask": Case(
        lambda q, k, v: ops.attention(q, k, v, mask=MASK),
        lambda q, k, v: masked(q, k, v, MASK), HEADS,
    ),
    "attention added mask": Case(
        lambda q, k, v, mask: ops.attention(q, k, v, causal=True, mask=mask), masked_causally,
        (*HEADS, (5, 7)),
    ),
    "attention lengths and mask": Case(
        lambda q, k, v: ops.attention(q, k, v, lengths=LENGTHS, mask=MASK),
        lambda q, k, v: masked(q, k, v, MASK & within(k, LENGTHS)), HEADS,
    ),
    "loss mean": loss("mean"), "loss sum": loss("sum"), "losses": loss("none"),
    "embedding": Case(
        lambda t: ops.embedding(t, PICKED), lambda t: F.embedding(PICKED, t), ((6, 9),)
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("name", CASES)


def tensors(name: str, dtype: Any = torch.float32, *, differentiated: bool = True) -> list[Any]:
    draw = torch.Generator().manual_seed(len(name))
    shapes = CASES[name].shapes
    samples = [torch.randn(shape, generator=draw).to(dtype) for shape in shapes]
    return [each.requires_grad_(differentiated) for each in samples]


def slopes_like(y: Any) -> Any:
    return torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)


def differentiated(call: Callable[..., Any], arguments: list[Any], slopes: Any = None) -> list[Any]:
    """The result, and the gradients of what has one."""
    y = call(*arguments)
    slopes = slopes_like(y) if slopes is None else slopes
    return [y, *torch.autograd.grad(y, [each for each in arguments if each.requires_grad], slopes)]


def same(actual: list[Any], wanted: list[Any]) -> None:
    for each, other in zip(actual, wanted, strict=True):
        assert torch.equal(each, other)


OF_16_BITS = (
    "softmax", "layer norm", "swiglu", "gemm nt shared with more", "attention causal", "loss mean",
    "losses", "embedding",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in CASES),
        *(
            pytest.param(name, torch.bfloat16, marks=pytest.mark.thorough if slow else ())
            for name in OF_16_BITS
            for slow in [name.startswith(("gemm", "attention"))]
        ),
        ("softmax", torch.float16),
    ],
    ids=str,
)
def test_results_and_gradients(name: str, dtype: Any) -> None:
    """A unit or two of the type, of the largest element; f32 has some more for its sums."""
    arguments = tensors(name, dtype)
    results = differentiated(CASES[name].call, arguments)
    exact = differentiated(
        CASES[name].exact, [each.detach().double().requires_grad_() for each in arguments],
        slopes_like(results[0]).double(),
    )  # fmt: skip
    for each, wanted in zip(results, exact, strict=True):
        assert each.shape == wanted.shape
        unit = UNIT[each.dtype] * (16 if each.dtype is torch.float32 else 2)
        assert (each.double() - wanted).abs().max() <= unit * wanted.abs().max()
    result = torch.float32 if name.startswith("loss") else dtype
    assert [each.dtype for each in results] == [result, *(dtype for _ in arguments)]


@cases
def test_tensors_that_are_not_contiguous(name: str) -> None:
    """Every other element of larger memory, and slopes that are one number."""
    arguments = tensors(name)
    wanted = differentiated(CASES[name].call, arguments)
    strided = []
    for each in arguments:
        room = torch.zeros([2 * size + 1 for size in each.shape])
        other = room[tuple(slice(1, None, 2) for _ in each.shape)]
        strided.append(other.copy_(each.detach()).requires_grad_())
    assert not any(each.is_contiguous() for each in strided)
    same(differentiated(CASES[name].call, strided), wanted)
    wanted = differentiated(CASES[name].call, arguments, torch.ones_like(wanted[0]))
    same(
        differentiated(CASES[name].call, arguments, torch.ones(()).expand(wanted[0].shape)), wanted
    )


def test_a_transposed_operand_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, Any] = {}
    monkeypatch.setattr(
        products, "call", lambda _function, out, **arguments: taken.update(arguments) or out
    )
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    ops.gemm(a.mT.contiguous().mT, b.mT, transpose_b=True)
    assert (taken["transpose_a"], taken["transpose_b"]) == (True, False)
    assert taken["a"].is_contiguous()
    assert taken["b"].data_ptr() == b.data_ptr()


@cases
def test_gradients_of_some_arguments(name: str) -> None:
    arguments = tensors(name)
    y, *wanted = differentiated(CASES[name].call, arguments)
    for number, slopes in enumerate(wanted):
        some = [each.detach() for each in arguments]
        some[number].requires_grad_()
        same(differentiated(CASES[name].call, some), [y, slopes])


def test_unneeded_products_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        products,
        "call",
        lambda *arguments, **named: calls.append(named) or call(*arguments, **named),
    )
    x, weight = torch.ones(3, 4), torch.ones(2, 4, requires_grad=True)
    ops.linear(x, weight).sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_losses_that_are_scaled(reduction: Any, dtype: Any) -> None:
    """A small gradient is scaled before it is rounded to f16, which has no 2^-26."""
    x = torch.tensor([[17.0, 0, 0], [0, 17, 0]], dtype=dtype, requires_grad=True)
    y = ops.cross_entropy(x, torch.tensor([0, 1]), reduction=reduction)
    (y.sum() * 2.0**15).backward()
    wanted = 2.0**15 * torch.softmax(x.detach().double(), -1)[0, 1]
    wanted /= 2 if reduction == "mean" else 1
    assert x.grad is not None
    assert float(x.grad[0, 1]) == pytest.approx(float(wanted), rel=2e-3)


def test_a_loss_whose_gradient_is_infinite() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    (ops.cross_entropy(x, torch.tensor([0, 1])) * torch.inf).backward()
    assert torch.equal(x.grad, torch.tensor([[-torch.inf, 1, 1], [1, -torch.inf, 1]]) * torch.inf)


EMPTY: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "softmax": (ops.softmax, [(0, 8)]),
    "rms norm": (ops.rms_norm, [(0, 8), (8,)]),
    "silu": (ops.silu, [(0,)]),
    "rope": (lambda x: ops.rope(x, TURNS), [(2, 0, 5, 8)]),
    "gemm of no sum": (ops.gemm, [(2, 0), (0, 3)]),
    "gemm of no rows": (ops.gemm, [(0, 2), (2, 3)]),
    "linear of no batch": (ops.linear, [(0, 3, 4), (2, 4), (2,)]),
    "attention of no queries": (ops.attention, [(2, 0, 8), (2, 3, 8), (2, 3, 8)]),
    "attention of no keys": (ops.attention, [(2, 3, 8), (2, 0, 8), (2, 0, 8)]),
    "loss": (
        lambda x: ops.cross_entropy(x, torch.zeros(0, dtype=torch.int64), reduction="none"),
        [(0, 8)],
    ),
    "mean loss": (lambda x: ops.cross_entropy(x, torch.zeros(0, dtype=torch.int64)), [(0, 8)]),
    "embedding": (lambda t: ops.embedding(t, torch.zeros(0, dtype=torch.int64)), [(3, 8)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors(name: str) -> None:
    """Results that are not empty are 0, and so are all gradients."""
    call, shapes = EMPTY[name]
    arguments = [torch.ones(shape, requires_grad=True) for shape in shapes]
    for tensor, like in zip(differentiated(call, arguments), [None, *arguments], strict=True):
        assert like is None or tensor.shape == like.shape
        assert not tensor.any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32, torch.int64], ids=str)
def test_index_dtypes(dtype: Any) -> None:
    x, picks = torch.ones(6, 2), torch.tensor([3, 1])
    assert torch.equal(ops.embedding(x, picks.to(dtype)), ops.embedding(x, picks))
    assert torch.equal(ops.cross_entropy(x, torch.ones(6).to(dtype)), torch.tensor(2.0).log())
    q = torch.ones(1, 1, 2)
    assert torch.equal(ops.attention(q, q, q, lengths=torch.ones(1).to(dtype)), q)


def test_negated_views() -> None:
    """PyTorch keeps a sign of some views beside their memory."""
    x = torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).conj().imag
    assert x.is_neg()
    assert torch.equal(ops.silu(x), ops.silu(torch.tensor([-2.0, -4.0])))


def test_zero_tensors_without_storage() -> None:
    zeros = torch._efficientzerotensor((3,))
    assert torch.equal(ops.swiglu(zeros, torch.ones(3)), torch.zeros(3))


@cases
def test_several_slopes_at_once(name: str) -> None:
    """PyTorch gives gradients a tensor that stands for all of them."""
    arguments = tensors(name)
    y = CASES[name].call(*arguments)
    slopes = torch.stack([slopes_like(y), torch.ones_like(y)])
    gradients = torch.autograd.grad(y, arguments, slopes, retain_graph=True, is_grads_batched=True)
    same(
        list(gradients[0]),
        [torch.autograd.grad(y, arguments, slope, retain_graph=True)[0] for slope in slopes],
    )


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls that are not direct fail."""

    def registered(*_: Any) -> None:
        raise AssertionError("an op was called")

    for op in (rows._SOFTMAX, rows._RMS_NORM, heads._ATTENTION, losses._CROSS_ENTROPY):
        monkeypatch.setattr(op, "_registered", registered)
    return None


def test_calls_without_gradients_bypass_autograd(direct: None) -> None:
    x, weight = torch.ones(2, 3, 8), torch.nn.Parameter(torch.ones(8))
    assert not ops.softmax(x).requires_grad
    with pytest.raises(AssertionError, match="an op was called"):
        ops.rms_norm(x, weight)
    with torch.no_grad():
        assert not ops.rms_norm(x, weight).requires_grad
        ops.attention(x, x, x)
    with torch.inference_mode():
        assert ops.rms_norm(x, weight).is_inference()
    ops.cross_entropy(x, torch.zeros(2, 3, dtype=torch.int64))


def test_threads() -> None:
    """Devices of the processor are used from any thread, and so are graphs."""
    arguments = tensors("attention causal")
    call = CASES["attention causal"].call
    wanted = differentiated(call, arguments)
    y = call(*arguments)
    results: list[Any] = []

    def work() -> None:
        results.append(differentiated(call, arguments))
        slopes = slopes_like(y)
        results.append([y, *torch.autograd.grad(y, arguments, slopes, retain_graph=True)])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(results) == 6
    for each in results:
        same(each, wanted)


def test_training() -> None:
    """A perceptron learns what is a sum, in a few steps."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(64, 8, generator=draw)
    classes = (x.sum(1) > 0).long()
    shapes = ((16, 8), (16, 8), (2, 16))
    weights = [torch.nn.Parameter(0.3 * torch.randn(s, generator=draw)) for s in shapes]
    optimiser = torch.optim.Adam(weights, 0.05)
    losses = []
    for _ in range(30):
        gate, up, down = weights
        y = ops.linear(ops.swiglu(ops.linear(x, gate), ops.linear(x, up)), down)
        optimiser.zero_grad()
        loss = ops.cross_entropy(y, classes)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 < losses[0]
