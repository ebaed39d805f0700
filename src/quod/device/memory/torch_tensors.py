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
    "Negative": "its negation is not applied in memory; use x.resolve_neg()",
    "Conjugate": "its conjugation is not applied in memory; use x.resolve_conj()",
    "ZeroTensor": "it is zeros without memory; use x.clone()",
}
"""Transformations that PyTorch applies before an operation sees the elements, by dispatch key."""
_STANDING = ("Python", "Functionalize", "Batched", "FuncTorchBatched", "FuncTorchGradWrapper")
"""The keys of tensors that stand for others."""


def disguise(value: object) -> str | None:
    """Return why a PyTorch tensor's memory does not hold its elements, else None.

    Returns None for any other value, too.
    """
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
    """Return the module of PyTorch if `value` is one of its tensors, else None."""
    torch: Any = sys.modules.get("torch")
    # While it is being loaded it has no tensors.
    return torch if torch is not None and isinstance(value, getattr(torch, "Tensor", ())) else None


def torch_float8(value: Any) -> tuple[Any, Type | None]:
    """View a PyTorch tensor of 8-bit floats as u8 and return it with its element type.

    Other values are returned unchanged, with None. None of the interfaces through which PyTorch
    exports arrays has these types.
    """
    torch = _torch_of(value)
    element = FLOAT8_NAMES.get(str(value.dtype).removeprefix("torch.")) if torch else None
    return (value, None) if element is None else (value.view(torch.uint8), element)


def as_torch_float8(value: Any, element: Type) -> Any:
    """View a u8 PyTorch tensor as one of 8-bit floats; other values are returned unchanged."""
    torch = _torch_of(value)
    if torch is None:
        return value
    names = {type_: name for name, type_ in FLOAT8_NAMES.items()}
    return value.view(getattr(torch, names[element]))


@functools.cache
def _reasons() -> tuple[int, Sequence[tuple[Any, str]]]:
    """Return the bits of all dispatch keys, and each key with its reason."""
    torch = sys.modules["torch"]
    stands = "it is a wrapper of other tensors and has no memory of its own"
    key_of = torch._C._parse_dispatch_key
    # None for what a version of PyTorch does not have.
    keys_and_reasons = [
        (key, why)
        for name, why in (_BESIDE | dict.fromkeys(_STANDING, stands)).items()
        if (key := key_of(name)) is not None
    ]
    bits = [torch._C.DispatchKeySet(key).raw_repr() for key, _ in keys_and_reasons]
    return functools.reduce(operator.or_, bits, 0), keys_and_reasons
