"""Invalid arguments of PyTorch ops, named as the caller names them; and stream order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch

from quod.errors import DeviceError, InputError, QuodError
from quod.tensor import torch as ops
from quod.tensor.torch import memory
from tests.boundaries.row import WRONG

X, VECTOR, SQUARE = torch.ones(3, 8), torch.ones(8), torch.ones(1, 8, 8)
X8 = X.to(torch.float8_e4m3fn)
PICKED = torch.zeros(3, dtype=torch.int64)
NUMBER = ("a float", "negative", "huge")
CALLS: dict[str, tuple[dict[str, Any], dict[str, tuple[str, ...]]]] = {
    "softmax": ({"x": X, "dim": 0}, {"dim": ("negative",)}),
    "rms_norm": ({"x": X, "weight": VECTOR, "epsilon": 1e-6}, {"epsilon": ("a float", "huge")}),
    "layer_norm": (
        {"x": X, "weight": VECTOR, "bias": VECTOR, "epsilon": 1e-6},
        {"epsilon": ("a float", "huge")},
    ),
    "silu": ({"x": X}, {}),
    "gelu": ({"x": X, "approximate": "none"}, {}),
    "swiglu": ({"gate": X, "up": X}, {}),
    "rope": ({"x": SQUARE, "table": SQUARE[0], "pairs": "halves", "axis": -2}, {}),
    "gemm": (
        {
            "a": SQUARE[0], "b": SQUARE[0], "bias": None, "residual": None, "scale": 1.0,
            "transpose_a": False, "transpose_b": True,
        },
        {
            "bias": ("None",), "residual": ("None",), "scale": NUMBER, "transpose_a": ("true",),
            "transpose_b": ("true",),
        },
    ),
    "linear": ({"x": X, "weight": X, "bias": None}, {"bias": ("None",)}),
    "attention": (
        {
            "q": SQUARE, "k": SQUARE, "v": SQUARE, "scale": None, "causal": False, "lengths": None,
            "mask": None, "dropout": 0.0,
        },
        {
            "scale": ("None", "a float", "huge"), "causal": ("true",), "lengths": ("None",),
            "mask": ("None", "one", "bits"), "dropout": ("a float",),
        },
    ),
    "cross_entropy": (
        {"logits": X, "targets": PICKED, "ignore_index": -100, "reduction": "mean"},
        {"ignore_index": ("negative",)},
    ),
    "embedding": ({"table": X, "indices": PICKED}, {}),
    "quantise_fp8": ({"x": X, "dtype": "e4m3", "scales": "rows"}, {}),
    "dequantise_fp8": ({"x": X8, "scales": X[:, 0], "out_dtype": torch.float32}, {}),
    "gemm_fp8": (
        {
            "a": X8, "b": X8, "scale_a": None, "scale_b": None, "bias": None, "transpose_a": False,
            "transpose_b": True, "fast_accumulation": False, "out_dtype": torch.float32,
        },
        {
            **dict.fromkeys(("scale_a", "scale_b"), ("None", *NUMBER)),
            **dict.fromkeys(("transpose_a", "transpose_b", "fast_accumulation"), ("true",)),
            "bias": ("None",),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ops.__all__)
@pytest.mark.parametrize("differentiated", [False, True])
def test_wrong_arguments_raise_quod_errors(name: str, differentiated: bool) -> None:
    """Directly and through the op; a tensor of each other type is wrong, too."""
    right, fine = CALLS[name]
    call = getattr(ops, name)
    right = {
        key: value.clone().requires_grad_()
        if differentiated and isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for key, value in right.items()
    }
    call(**right)
    wrong = WRONG | {
        "doubles": X.double(), "bits": X.bool(), "sparse": X.to_sparse(), "one": torch.ones(())
    }  # fmt: skip
    for argument in right:
        for kind, value in wrong.items():
            if kind in fine.get(argument, ()):
                continue
            with pytest.raises(QuodError) as refused:
                call(**right | {argument: value})
            assert argument in str(refused.value) or kind not in WRONG, (argument, kind)
            assert "\n" not in str(refused.value), (argument, kind)


def test_every_function_has_a_rejection_test() -> None:
    assert set(CALLS) == set(ops.__all__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.silu(X.double()), r"^x is of torch.float64; tensors are of float32, "),
        (lambda: ops.swiglu(X, X.half()), r"^up is of torch.float16, and gate of torch.float32$"),
        (lambda: ops.swiglu(X, X[:1]), r"^up must be of shape \(3, 8\), not \(1, 8\)$"),
        (lambda: ops.silu(X.to_sparse()), r"^x is a tensor of torch.sparse_coo; x.to_dense\(\) "),
        (
            lambda: ops.swiglu(X, torch.nested.nested_tensor([VECTOR], layout=torch.jagged)),
            r"^up is a nested tensor; x.to_padded_tensor\(0.0\) makes it a plain one$",
        ),
        (lambda: ops.rms_norm(X, X), r"^weight must be of shape \(8,\), not \(3, 8\)$"),
        (lambda: ops.embedding(X, X), r"^indices is of torch.float32; indices are of int64, "),
        (lambda: ops.embedding(X, PICKED + 2**32), r"^indices\[0\] is 2147483647, and the 3 rows"),
        (lambda: ops.embedding(X, PICKED - 2**32), r"^indices\[0\] is -2147483648, and the 3 "),
        (lambda: ops.cross_entropy(X, PICKED + 2**32), r"^targets\[0\] is 2147483647, and the 8 "),
        (
            lambda: ops.cross_entropy(X, PICKED, ignore_index=-(2**31)),
            "^ignore_index must be a whole number from -2147483647 to 2147483646, not -2147483648$",
        ),
        (lambda: ops.cross_entropy(X, PICKED[:2]), r"^targets must be of shape \(3,\), not \(2,\)"),
        (lambda: ops.gemm(X, X), r"^the summed axis of b has 3 elements, but that of a has 8$"),
        (lambda: ops.gemm(X, SQUARE), r"^b must be of shape \(8, 8\), not \(1, 8, 8\)$"),
        (lambda: ops.linear(X, X, X), r"^bias must be of shape \(3,\), not \(3, 8\)$"),
        (lambda: ops.linear(X, X[:, :3]), r"^weight must be of shape \(3, 8\), not \(3, 3\)$"),
        (lambda: ops.linear(X, VECTOR), r"^weight must be of shape \(8, 8\), not \(8,\)$"),
        (lambda: ops.linear(X, X.half()), r"^weight is of torch.float16, and x of torch.float32$"),
        (lambda: ops.linear(VECTOR[0], X), r"^x must have an axis at least$"),
        (
            lambda: ops.attention(X, X, X),
            "^q and k must have at least the axes heads, tokens and size",
        ),
        (
            lambda: ops.attention(SQUARE, SQUARE, SQUARE[:, :3]),
            r"^v must be of shape \(1, 8, 8\), not \(1, 3, 8\)$",
        ),
    ],
)
def test_invalid_arguments_are_rejected(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.rms_norm(X.to("meta"), VECTOR), r"^weight is on cpu, and x on meta; move "),
        (lambda: ops.embedding(X, PICKED.to("meta")), r"^indices is on meta, and table on cpu; "),
        (lambda: ops.rope(SQUARE, X.to("meta")), r"^table is on meta, and x on cpu; move "),
        (lambda: memory._device(X.to("meta")), r"^tensors are on meta, and kernels run on cpu "),
    ],
)
def test_tensors_of_other_devices(call: Any, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        call()


def test_missing_gradients_are_reported() -> None:
    x = SQUARE.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(ops.silu(x).square().sum(), x, create_graph=True)
    with pytest.raises(InputError, match=r"^silu_backward is a gradient, which is not diff"):
        slopes.sum().backward()
    weight = VECTOR.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(ops.rms_norm(x, weight).sum(), weight, create_graph=True)
    with pytest.raises(InputError, match=r"^rms_norm_backward is a gradient"):
        slopes.sum().backward()
    table = SQUARE[0].clone().requires_grad_()
    with pytest.raises(InputError, match=r"^table of rope has no gradient, and one is asked for$"):
        ops.rope(x, table).sum().backward()


def test_second_derivatives_of_products() -> None:
    a, b = torch.arange(6.0).view(2, 3).requires_grad_(), torch.ones(3, 2, requires_grad=True)
    for first, second in ((ops.gemm(a, b), ops.gemm), (a @ b, torch.matmul)):
        assert torch.equal(first, second(a, b))
    second_gradients = []
    for call in (ops.gemm, torch.matmul):
        (slopes,) = torch.autograd.grad(call(a, b).square().sum(), a, create_graph=True)
        second_gradients.append(torch.autograd.grad(slopes.square().sum(), (a, b)))
    assert all(map(torch.equal, *second_gradients))


class Gpu:
    """Records the requests to PyTorch about a GPU, in order."""

    def __init__(self, capturing: bool) -> None:
        self.asked: list[Any] = []
        self.capturing = capturing

    def device(self, device: Any) -> Any:
        self.asked.append(device)
        return self

    def __enter__(self) -> None:
        self.asked.append("entered")

    def __exit__(self, *_: object) -> None:
        self.asked.append("left")

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self) -> Any:
        return SimpleNamespace(synchronize=lambda: self.asked.append("waited"))


def test_work_on_the_current_cuda_stream_completes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's current device is restored afterwards."""
    gpu, x = Gpu(capturing=False), SimpleNamespace(is_cuda=True, device="cuda:1")
    monkeypatch.setattr(torch, "cuda", gpu)
    with memory._after_current_stream(x):
        gpu.asked.append("launched")
    assert gpu.asked == ["cuda:1", "entered", "waited", "launched", "left"]
    gpu = Gpu(capturing=True)
    monkeypatch.setattr(torch, "cuda", gpu)
    with pytest.raises(DeviceError, match=r"^CUDA graphs of PyTorch capture no kernel of Quod's"):
        memory._after_current_stream(x).__enter__()


def test_unaligned_gpu_tensors_are_copied() -> None:
    copied: list[int] = []

    def standing_in(address: int) -> Any:
        x = SimpleNamespace(
            is_cuda=True, is_neg=lambda: False, data_ptr=lambda: address,
            clone=lambda: copied.append(address),
        )  # fmt: skip
        x.detach = x.contiguous = lambda: x
        return x

    for address in (256, 260, 264, 272):
        memory._memory(standing_in(address))
    assert copied == [260, 264]
    x = SimpleNamespace(device=SimpleNamespace(type="cuda", index=1))
    assert memory._device(x) == "cuda:1"
