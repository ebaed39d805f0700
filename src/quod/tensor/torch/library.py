"""Ops of ``torch.ops.quod``, and direct calls that bypass the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from quod.device.memory.torch_tensors import reason_without_elements
from quod.errors import InputError
from quod.tensor.scalars import LARGEST
from quod.tensor.torch.memory import call
from quod.validation import shown

_INTEGER = ((int, torch.SymInt), (1 << 63) - 1, "a whole number of 64 bits")
_KINDS: dict[str, tuple[Any, float | None, str]] = {
    "Tensor": (Tensor, None, "a tensor of PyTorch"),
    "float": ((float, int, torch.SymFloat), LARGEST, "a number that f32 holds"),
    "SymInt": _INTEGER,
    "int": _INTEGER,
    "bool": (bool, None, "True or False"),
    "str": (str, None, "a str"),
    "ScalarType": (torch.dtype, None, "a type of PyTorch"),
}
"""For each schema type: the Python types, the greatest absolute value, and its name in errors."""


class Operator:
    """A function of tensors registered as a PyTorch op.

    schema: The arguments and results in PyTorch's schema language.
    allocate: Checks the arguments that determine shapes, and allocates the results; also the op's
        fake kernel.
    function: The function of `quod.tensor`, whose arguments have the same names.
    run: Computes the results; the default allocates them and calls `function`.
    keeps: Selects the arguments and results that the backward pass needs.
    gradient: The op that computes the gradients of the first arguments, from the gradient of the
        result and the kept values.
    formula: Computes gradients in place of `gradient`; its first argument, a tuple of bool, says
        which are needed.

    Only the first result is differentiable. `no_gradients` as `formula` means that no result is;
    with neither `gradient` nor `formula`, the op is itself a gradient. Raises InputError if a
    gradient that does not exist is requested.
    """

    def __init__(
        self, name: str, schema: str, allocate: Callable[..., Any],
        function: Callable[..., Any] | None = None, *, run: Callable[..., Any] | None = None,
        keeps: Callable[..., tuple[Any, ...]] | None = None, gradient: Operator | None = None,
        formula: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._arguments = [
            (kind, argument)
            for kind, argument in map(str.split, schema[1 : schema.index(")")].split(", "))
        ]
        self._allocate, self._function, self._run = allocate, function, run or self._call
        self._keeps, self._formula = keeps, formula
        if gradient is not None:
            self._formula = lambda _needed, *arguments: gradient(*arguments)
        # CUDA graphs cannot capture launches that wait for their end.
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.cudagraph_unsafe)
        op = f"quod::{name}"
        torch.library.define(op, schema, tags=tags)
        torch.library.impl(op, "default", self._run)
        torch.library.register_fake(op, allocate)
        torch.library.register_autograd(op, self._backward, setup_context=self._save)
        self._registered = getattr(torch.ops.quod, name).default

    def __call__(self, *arguments: Any) -> Any:
        """Return the results; InputError, with the argument's name, for a wrong type."""
        for (kind, name), value in zip(self._arguments, arguments, strict=True):
            _check(kind, name, value)
        tensors = [each for each in arguments if isinstance(each, Tensor)]
        direct = not torch.compiler.is_compiling() and not _is_watched(tensors)
        return self._run(*arguments) if direct else self._registered(*arguments)

    def _call(self, *arguments: Any) -> Any:
        assert self._function is not None
        named = {name: value for (_, name), value in zip(self._arguments, arguments, strict=True)}
        return call(self._function, self._allocate(*arguments), **named)

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the backward pass needs: tensors through PyTorch, other values as they are."""
        results = output if isinstance(output, tuple) else (output,)
        if self._formula not in (None, no_gradients):
            ctx.mark_non_differentiable(*results[1:])
        kept = () if self._keeps is None else self._keeps(*inputs, *results)
        ctx.save_for_backward(*[each for each in kept if isinstance(each, Tensor)])
        ctx.kept = [_SAVED if isinstance(each, Tensor) else each for each in kept]

    def _backward(self, ctx: Any, result_gradient: Tensor, *_others: Any) -> tuple[Any, ...]:
        """Compute the gradients; InputError if one is needed and does not exist."""
        if self._formula is None:
            raise InputError(f"{self._name} is a gradient, which is not differentiated again")
        saved = iter(ctx.saved_tensors)
        kept = [next(saved) if value is _SAVED else value for value in ctx.kept]
        gradients = self._formula(ctx.needs_input_grad, result_gradient, *kept)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        gradients += (None,) * (len(self._arguments) - len(gradients))
        for (_, name), needed, gradient in zip(self._arguments, ctx.needs_input_grad, gradients):
            if needed and gradient is None:
                raise InputError(f"{name} of {self._name} has no gradient, and one is asked for")
        return gradients


def no_gradients(*_: Any) -> tuple[()]:
    """Return no gradients: the `formula` of an op without a differentiable result."""
    return ()


_SAVED = object()
"""Stands for a kept tensor, which PyTorch saves."""
_PLAIN = (Tensor, torch.nn.Parameter)
"""The types of ordinary tensors; subclasses may intercept calls."""


def check_tensor(name: str, value: object) -> None:
    """Raise InputError unless `value` is a tensor of PyTorch."""
    _check("Tensor", name, value)


def _check(kind: str, name: str, value: Any) -> None:
    """Raise InputError unless a value has the type that the schema gives its argument."""
    if value is None and kind.endswith("?"):
        return
    types, max_absolute, text = _KINDS[kind.removesuffix("?")]
    fits = isinstance(value, types) and (types is bool or not isinstance(value, bool))
    if not fits or (max_absolute is not None and not abs(value) <= max_absolute):
        raise InputError(f"{name} must be {text}, not {shown(value)}")
    if types is Tensor and value.is_nested:
        raise InputError(f"{name} is a nested tensor; x.to_padded_tensor(0.0) makes it a plain one")


def _is_watched(tensors: Sequence[Tensor]) -> bool:
    """Return True if a call must go through PyTorch's dispatcher.

    PyTorch must see a call while it differentiates, traces or transforms ops, and a call on tensors
    that are not ordinary memory. Raises InputError for forward-mode derivatives, which PyTorch
    would otherwise take to be zero.
    """
    if forward_ad._current_level >= 0:
        for each in tensors:
            if forward_ad.unpack_dual(each).tangent is not None:
                raise InputError("ops of Quod have gradients, and no derivatives along tangents")
    if (
        torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._is_tracing()
    ):
        return True
    differentiated = torch.is_grad_enabled()
    return any(
        type(each) not in _PLAIN
        or each.is_meta
        or (differentiated and each.requires_grad)
        or reason_without_elements(each) is not None
        for each in tensors
    )
