"""Detection of PyTorch tensors whose memory does not have their elements.

PyTorch applies the negation or conjugation of some views lazily, and some tensors are wrappers
without memory: function transforms, fake tensors, zero tensors. Array protocols do not reveal this,
so PyTorch's dispatch keys are read. PyTorch is not imported for this: before the program imports
it, no value is a tensor.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Sequence
from typing import Any

from quod.device.elements import FLOAT8_NAMES
from quod.kernel.ir.types import Type

_LAZY_REASONS = {
    "Negative": "its negation is not applied in memory; use x.resolve_neg()",
    "Conjugate": "its conjugation is not applied in memory; use x.resolve_conj()",
    "ZeroTensor": "it is zeros without memory; use x.clone()",
}
"""The reason for each dispatch key of a transformation that PyTorch applies lazily."""
_WRAPPER_KEYS = ("Python", "Functionalize", "Batched", "FuncTorchBatched", "FuncTorchGradWrapper")
"""The dispatch keys of tensors that wrap other tensors."""


def reason_without_elements(value: object) -> str | None:
    """Return the reason why a PyTorch tensor's memory does not have its elements, or None.

    Returns None for values that are not tensors, too.
    """
    torch = _torch_of(value)
    if torch is None:
        return None
    keys = torch._C._dispatch_keys(value)
    mask, reasons = _reasons()
    # The common case: the tensor has none of the keys.
    if not keys.raw_repr() & mask:
        return None
    return next((reason for key, reason in reasons if keys.has(key)), None)


def _torch_of(value: object) -> Any:
    """Return the module of PyTorch if `value` is one of its tensors, else None."""
    torch: Any = sys.modules.get("torch")
    # While PyTorch is being imported, it has no attribute Tensor.
    return torch if torch is not None and isinstance(value, getattr(torch, "Tensor", ())) else None


def torch_float8(value: Any) -> tuple[Any, Type | None]:
    """Return a PyTorch tensor of 8-bit floats as a view of u8, and its element type.

    Returns other values unchanged, with None. The view is needed because no array protocol supports
    these types.
    """
    torch = _torch_of(value)
    element = FLOAT8_NAMES.get(str(value.dtype).removeprefix("torch.")) if torch else None
    return (value, None) if element is None else (value.view(torch.uint8), element)


def as_torch_float8(value: Any, element: Type) -> Any:
    """Return a u8 PyTorch tensor as a view of 8-bit floats; return other values unchanged."""
    torch = _torch_of(value)
    if torch is None:
        return value
    names = {type_: name for name, type_ in FLOAT8_NAMES.items()}
    return value.view(getattr(torch, names[element]))


@functools.cache
def _reasons() -> tuple[int, Sequence[tuple[Any, str]]]:
    """Return the bit mask of the dispatch keys above, and each of them with its reason."""
    torch = sys.modules["torch"]
    wrapper_reason = "it is a wrapper of other tensors and has no memory of its own"
    key_of = torch._C._parse_dispatch_key
    # `key_of` returns None for a key that this version of PyTorch does not have.
    keys_and_reasons = [
        (key, reason)
        for name, reason in (_LAZY_REASONS | dict.fromkeys(_WRAPPER_KEYS, wrapper_reason)).items()
        if (key := key_of(name)) is not None
    ]
    bits = [torch._C.DispatchKeySet(key).raw_repr() for key, _ in keys_and_reasons]
    return functools.reduce(operator.or_, bits, 0), keys_and_reasons
