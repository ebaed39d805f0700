"""The kernels of AdamW, by the types of parameters and gradients, clipped or not."""

from __future__ import annotations

from quod.kernel import Builder, KernelDefinition, Value, f32
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import Function, flat_kernel
from quod.tensor.rows.plan import FlatPlan
from quod.tensor.training.clipping_kernels import clip_factor

_RATES = "decay rate root"
_NUMBERS = "epsilon keep_first add_first keep_second add_second scale"


def _adamw(
    k: Builder, decay: Value, rate: Value, root: Value, epsilon: Value, keep_first: Value,
    add_first: Value, keep_second: Value, add_second: Value, scale: Value, parameter: Value,
    gradient: Value, first: Value, second: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW (Loshchilov and Hutter, Decoupled weight decay regularization, 2019)."""
    slope = gradient * scale
    first = k.fma(first, keep_first, slope * add_first)
    second = k.fma(second, keep_second, slope * add_second * slope)
    change = first / k.fma(k.sqrt(second), root, epsilon)
    return [parameter - k.fma(parameter, decay, change * rate), first, second]


def _clipped_adamw(
    k: Builder, decay: Value, rate: Value, root: Value, epsilon: Value, keep_first: Value,
    add_first: Value, keep_second: Value, add_second: Value, scale: Value, most: Value, norm: Value,
    *elements: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW with clipped gradients."""
    clipped_scale = scale * clip_factor(k, most, norm * abs(scale))
    numbers = (
        decay,
        rate,
        root,
        epsilon,
        keep_first,
        add_first,
        keep_second,
        add_second,
        clipped_scale,
    )
    return _adamw(k, *numbers, *elements)


def _adamw_of_rates(
    k: Builder, epsilon: Value, keep_first: Value, add_first: Value, keep_second: Value,
    add_second: Value, scale: Value, decay: Value, rate: Value, root: Value, *elements: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW whose rates are in memory."""
    numbers = (decay, rate, root, epsilon, keep_first, add_first, keep_second, add_second, scale)
    return _adamw(k, *numbers, *elements)


def _clipped_adamw_of_rates(
    k: Builder, epsilon: Value, keep_first: Value, add_first: Value, keep_second: Value,
    add_second: Value, scale: Value, most: Value, decay: Value, rate: Value, root: Value,
    norm: Value, *elements: Value,
) -> list[Value]:  # fmt: skip
    """A step of AdamW with clipped gradients whose rates are in memory."""
    numbers = (decay, rate, root, epsilon, keep_first, add_first, keep_second, add_second, scale)
    return _clipped_adamw(k, *numbers, most, norm, *elements)


_FUNCTIONS: dict[tuple[bool, bool], Function] = {
    (False, False): _adamw, (True, False): _clipped_adamw,
    (False, True): _adamw_of_rates, (True, True): _clipped_adamw_of_rates,
}  # fmt: skip


def _of(parameter: Type, gradient: Type, *, clipped: bool, rates: bool) -> KernelDefinition:
    moments = {"first": f32, "second": f32}
    numbers = [_NUMBERS] if rates else [_RATES, _NUMBERS]
    held = {"rates": len(_RATES.split())} if rates else {}
    if clipped:
        numbers, held = [*numbers, "most"], held | {"norm": 1}
    return flat_kernel(
        f"adamw{'_rates' if rates else ''}{'_clipped' if clipped else ''}_{parameter}_{gradient}",
        _FUNCTIONS[clipped, rates],
        " ".join(numbers),
        {"parameter": parameter, "gradient": gradient, **moments},
        {"parameter": parameter, **moments},
        held=held,
    )


ADAMW = {
    (parameter, gradient, clipped, rates): _of(parameter, gradient, clipped=clipped, rates=rates)
    for parameter, gradient in [(f32, f32), *((each, g) for each in HALVES for g in (each, f32))]
    for clipped in (False, True)
    for rates in (False, True)
}
"""The kernels by parameter type, gradient type, clipping, and rates in memory."""

for _definition in (
    ADAMW[f32, f32, False, False],
    ADAMW[HALVES[1], HALVES[1], True, False],
    ADAMW[f32, f32, True, True],
):
    register(
        f"tensor.{_definition.name}", _definition,
        plan=FlatPlan(lanes=8, vector=4, batch=2, steps=1),
    )  # fmt: skip
