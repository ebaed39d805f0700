"""Ops of ``torch.ops.quod``, and when a call need not be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from quod.device.memory.torch_tensors import disguise
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
"""The types of arguments in Python, the greatest size of numbers, and what errors call them."""


class Operator:
    """A function of tensors that PyTorch knows by a name.

    `schema` says in PyTorch's language what the arguments and results are. `made` gives memory for
    the results: the compiler asks it for shapes, and it looks at what these depend on. `function`
    is that of `quod.tensor`, whose arguments have the same names; where there is more to do than to
    call it, `run` computes the results.

    The first result can be differentiated. `keeps` says of the arguments and results what is kept
    for that, and `gradient` is the op that gives the gradients of the first arguments from that of
    the result and from what was kept; where there is more to do, `formula` has them, which is told
    first which arguments need one: `no_gradients` that there is none, of any result. With neither,
    the op is a gradient itself. InputError is raised where a gradient is asked for that there is
    not.
    """

    def __init__(
        self, name: str, schema: str, made: Callable[..., Any],
        function: Callable[..., Any] | None = None, *, run: Callable[..., Any] | None = None,
        keeps: Callable[..., tuple[Any, ...]] | None = None, gradient: Operator | None = None,
        formula: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._arguments = [
            (kind, argument)
            for kind, argument in map(str.split, schema[1 : schema.index(")")].split(", "))
        ]
        self._made, self._function, self._run = made, function, run or self._call
        self._keeps, self._formula = keeps, formula
        if gradient is not None:
            self._formula = lambda _needed, *given: gradient(*given)
        # No graph of CUDA has launches whose end is waited for.
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.cudagraph_unsafe)
        op = f"quod::{name}"
        torch.library.define(op, schema, tags=tags)
        torch.library.impl(op, "default", self._run)
        torch.library.register_fake(op, made)
        torch.library.register_autograd(op, self._backward, setup_context=self._save)
        self._registered = getattr(torch.ops.quod, name).default

    def __call__(self, *given: Any) -> Any:
        """The results; InputError, with the name of the argument, for one of another type."""
        for (kind, name), value in zip(self._arguments, given, strict=True):
            _check(kind, name, value)
        tensors = [each for each in given if isinstance(each, Tensor)]
        direct = not torch.compiler.is_compiling() and not _is_watched(tensors)
        return self._run(*given) if direct else self._registered(*given)

    def _call(self, *given: Any) -> Any:
        assert self._function is not None
        named = {name: value for (_, name), value in zip(self._arguments, given, strict=True)}
        return call(self._function, self._made(*given), **named)

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        if self._formula not in (None, no_gradients):
            ctx.mark_non_differentiable(*results[1:])
        kept = () if self._keeps is None else self._keeps(*inputs, *results)
        ctx.save_for_backward(*[each for each in kept if isinstance(each, Tensor)])
        ctx.kept = [_SAVED if isinstance(each, Tensor) else each for each in kept]

    def _backward(self, ctx: Any, slopes: Tensor, *_others: Any) -> tuple[Any, ...]:
        if self._formula is None:
            raise InputError(f"{self._name} is a gradient, which is not differentiated again")
        saved = iter(ctx.saved_tensors)
        kept = [next(saved) if each is _SAVED else each for each in ctx.kept]
        found = self._formula(ctx.needs_input_grad, slopes, *kept)
        found = found if isinstance(found, tuple) else (found,)
        found += (None,) * (len(self._arguments) - len(found))
        for (_, name), needed, gradient in zip(self._arguments, ctx.needs_input_grad, found):
            if needed and gradient is None:
                raise InputError(f"{name} of {self._name} has no gradient, and one is asked for")
        return found


def no_gradients(*_: Any) -> tuple[()]:
    """The `formula` of an op whose results are differentiated by nothing."""
    return ()


_SAVED = object()
_PLAIN = (Tensor, torch.nn.Parameter)


def check_tensor(name: str, value: object) -> None:
    """InputError unless it is a tensor of PyTorch."""
    _check("Tensor", name, value)


def _check(kind: str, name: str, value: Any) -> None:
    if value is None and kind.endswith("?"):
        return
    wanted, most, text = _KINDS[kind.removesuffix("?")]
    fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
    if not fits or (most is not None and not abs(value) <= most):
        raise InputError(f"{name} must be {text}, not {shown(value)}")
    if wanted is Tensor and value.is_nested:
        raise InputError(f"{name} is a nested tensor; x.to_padded_tensor(0.0) makes it a plain one")


def _is_watched(tensors: Sequence[Tensor]) -> bool:
    """Whether PyTorch has a part in a call: it differentiates, records or transforms ops, or the
    tensors are more than memory, or less.

    InputError for derivatives along tangents, which PyTorch would take to be zero.
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
        or disguise(each) is not None
        for each in tensors
    )
