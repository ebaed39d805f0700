"""PyTorch tensors whose values differ from their memory are rejected by every device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch
from torch._subclasses import FakeTensorMode

from quod.device import open_device
from quod.device.memory.torch_tensors import reason_without_elements
from quod.errors import DeviceError, InputError
from quod.kernel.examples import saxpy
from quod.tensor import silu, softmax, transpose
from tests.device.cuda_fixture import open_gpu

X = torch.tensor([[1.0, 2.0, 3.0]])
WORDS = torch.tensor([1 + 2j, 3 - 1j])
SIGN = "its {} is not applied in memory; use x.resolve_{}"
STANDS = "it is a wrapper of other tensors and has no memory of its own"


def fake() -> Any:
    with FakeTensorMode():
        return torch.ones(1, 3)


def seen_by(transform: Any, x: Any) -> Any:
    """Return the argument that a transform gives to a function."""
    held = []

    def function(argument: Any) -> Any:
        held.append(argument)
        return argument * 1

    transform(function)(x)
    return held[0]


DISGUISED = {
    "negative": (lambda: torch._neg_view(X), SIGN.format("negation", "neg")),
    "imaginary": (lambda: WORDS[:1].conj().imag, SIGN.format("negation", "neg")),
    "conjugate": (lambda: WORDS.conj(), SIGN.format("conjugation", "conj")),
    "zeros": (lambda: torch._efficientzerotensor((1, 3)), "it is zeros without memory"),
    "fake": (fake, STANDS),
    "functional": (lambda: seen_by(torch.func.functionalize, X), STANDS),
    "nested": (lambda: torch.nested.nested_tensor([X[0]], layout=torch.jagged), STANDS),
    "batched": (lambda: seen_by(torch.vmap, X), STANDS),
}


@pytest.mark.parametrize("name", DISGUISED)
def test_tensors_without_plain_memory_are_rejected(name: str) -> None:
    make, why = DISGUISED[name]
    tensor = make()
    reason = reason_without_elements(tensor)
    assert reason is not None
    assert reason.startswith(why)
    with open_device("cpu") as device:
        with pytest.raises(InputError, match=rf"^x: \w+ does not export host memory: {why}"):
            transpose(device, tensor)
        with pytest.raises(DeviceError, match=why):
            device.upload(tensor)
        with pytest.raises(DeviceError, match=rf"^argument x of kernel saxpy.*{why}"):
            saxpy.on(device)(3, 2.0, tensor, np.zeros(3, np.float32))


def test_negated_view_as_output_is_rejected() -> None:
    with pytest.raises(InputError, match=r"^out: Tensor does not export host memory"):
        softmax("cpu", X, out=torch._neg_view(X.clone()))


@pytest.mark.parametrize(
    "tensor",
    [
        X, torch.nn.Parameter(X, requires_grad=False), torch._neg_view(X).resolve_neg(),
        torch.inference_mode()(lambda: X.clone())(), torch._efficientzerotensor((1, 3)).clone(),
        X.numpy(), None,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_tensors_with_plain_memory_are_accepted(tensor: Any) -> None:
    assert reason_without_elements(tensor) is None
    if tensor is not None:
        assert np.array_equal(silu("cpu", tensor), silu("cpu", np.asarray(tensor)))


class OnGpu(torch.Tensor):
    """A tensor that describes itself as those of a GPU do."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (3,), "typestr": "<f4", "data": (self.address, False), "version": 2}


def test_gpu_tensors(tmp_path: Path) -> None:
    with open_gpu("simulated", tmp_path) as gpu:
        memory = gpu.upload(X[0].numpy())
        plain, negative = X[0].as_subclass(OnGpu), torch._neg_view(X[0]).as_subclass(OnGpu)
        plain.address = negative.address = memory.address
        assert gpu.foreign_memory(plain) is not None
        with pytest.raises(DeviceError, match=SIGN.format("negation", "neg")):
            gpu.foreign_memory(negative)
