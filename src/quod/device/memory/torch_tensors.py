"""Tensors of PyTorch whose elements are not what is in their memory.

PyTorch keeps the sign of some views beside their memory, and some tensors stand for others: those
of transforms of functions, of modes that know shapes alone, and zeros that are nowhere. None of the
interfaces by which other libraries give arrays tells, so PyTorch itself is asked. It is not loaded
for that: where it is not, nothing is one of its tensors.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Sequence
from typing import Any

from quod.device.elements import FLOAT8_NAMES
from quod.kernel.ir.types import Type

_BESIDE = {
    "Negative": "its sign is kept beside its memory; x.resolve_neg() has it there",
    "Conjugate": "its sign is kept beside its memory; x.resolve_conj() has it there",
    "ZeroTensor": "it is zeros that have no memory; x.clone() has some",
}
"""Transformations that PyTorch applies before an operation sees the elements, by dispatch key."""
_STANDING = ("Python", "Functionalize", "Batched", "FuncTorchBatched", "FuncTorchGradWrapper")
"""The keys of tensors that stand for others."""


def disguise(value: object) -> str | None:
    """Why what is in the memory of a tensor of PyTorch are not its elements; None where they are,
    and for anything else."""
    torch = _torch_of(value)
    if torch is None:
        return None
    keys = torch._C._dispatch_keys(value)
    mask, reasons = _reasons()
    # Nearly always nothing: one look at all of them.
    if not keys.raw_repr() & mask:
        return None
    return next((why for key, why in reasons if keys.has(key)), None)


def _torch_of(value: object) -> Any:
    """PyTorch, of a tensor of it; else None."""
    torch: Any = sys.modules.get("torch")
    # While it is being loaded it has no tensors.
    return torch if torch is not None and isinstance(value, getattr(torch, "Tensor", ())) else None


def torch_float8(value: Any) -> tuple[Any, Type | None]:
    """A tensor of PyTorch of 8-bit floats as one of its bits, with their type; else the value.

    None of the interfaces by which PyTorch gives arrays has these types.
    """
    torch = _torch_of(value)
    element = FLOAT8_NAMES.get(str(value.dtype).removeprefix("torch.")) if torch else None
    return (value, None) if element is None else (value.view(torch.uint8), element)


def as_torch_float8(value: Any, element: Type) -> Any:
    """A tensor of PyTorch of bits as one of 8-bit floats; the value if it is none."""
    torch = _torch_of(value)
    if torch is None:
        return value
    names = {type_: name for name, type_ in FLOAT8_NAMES.items()}
    return value.view(getattr(torch, names[element]))


@functools.cache
def _reasons() -> tuple[int, Sequence[tuple[Any, str]]]:
    """The bits of all keys, and why each is one."""
    torch = sys.modules["torch"]
    stands = "it stands for other tensors, whose memory is not its own"
    key_of = torch._C._parse_dispatch_key
    # None for what a version of PyTorch does not have.
    keys_and_reasons = [
        (key, why)
        for name, why in (_BESIDE | dict.fromkeys(_STANDING, stands)).items()
        if (key := key_of(name)) is not None
    ]
    bits = [torch._C.DispatchKeySet(key).raw_repr() for key, _ in keys_and_reasons]
    return functools.reduce(operator.or_, bits, 0), keys_and_reasons
