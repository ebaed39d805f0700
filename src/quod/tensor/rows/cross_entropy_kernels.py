"""The kernels of the cross-entropy: its divisor, the loss and gradient of a row, and the total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.kernel import Builder, KernelDefinition, Location, Value, f32, pointer, u32
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.exponentials import LEAST, Powers
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import Access, Row, masked_terms, summed


def _count_targets(
    k: Builder, width: Value, classes: Value, ignored: Value, mean: Value, targets: Value,
    counts: Value, *, plan: RowPlan,
) -> None:  # fmt: skip
    """Count targets.

    counts[0]: The divisor of the loss: the targets that are not ignored, at least 1; 1 without
    `mean`. counts[1]: The targets that are neither ignored nor classes.
    """
    row = Row(k, u32, plan, k.constant(1, u32), width)
    zero, unit_weight = k.constant(0.0, f32), k.constant(1.0, f32)

    def used_weight(target: Value) -> Value:
        return k.select(target == ignored, 0.0, unit_weight)

    def wrong_weight(target: Value) -> Value:
        return k.select(target < classes, 0.0, used_weight(target))

    def step(accesses: list[Access], carried: Values) -> Values:
        return (
            summed(masked_terms(k, accesses, used_weight), carried[0]),
            summed(masked_terms(k, accesses, wrong_weight), carried[1]),
        )

    sums = row.fold(row.input_pointer(targets), (zero, zero), step)
    divisor = k.select(mean == 0, 1.0, k.maximum(row.total(sums[0]), 1.0))
    wrong_count = row.total(sums[1])
    with k.if_(k.local_id() == 0):
        counts[0], counts[1] = divisor, wrong_count


def _cross_entropy(
    k: Builder, rows: Value, width: Value, ignored: Value, scale: Value, x: Value, targets: Value,
    counts: Value, losses: Value, gradient: Value | None = None, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """losses[r] = log(sum(exp(x[r]))) - x[r, targets[r]], and its gradient.

    A target that is not a class is never used as an index: the row's last element is read instead.
    """
    row = Row(k, element, plan, rows, width)
    source, target = row.input_pointer(x), row.own(targets)
    used, is_class = target != ignored, target < row.length
    # All instances load the target's logit before the gradient is stored, perhaps over the logits:
    # the reduction to the greatest element starts from it.
    logit = row.element(x, k.minimum(target, row.length - 1))
    powers = Powers(k, row, source, logit)
    loss = (powers.top - logit) + k.log(powers.total)
    row.put(losses, k.select(used, k.select(is_class, loss, -LEAST), 0.0))
    if gradient is None:
        return
    gradient_factor, has_gradient = scale / counts[0], used & is_class
    power_factor = k.rcp(powers.total) * gradient_factor

    def result_of(access: Access) -> Sequence[Value]:
        values, gradients = access.values, []
        target_index = target - access.read_index * len(values)
        for index, value in enumerate(values):
            slope = powers.of(value) * power_factor
            slope = k.select(target_index == index, slope - gradient_factor, slope)
            gradients.append(k.select(has_gradient, slope, 0.0))
        return gradients

    row.store(source, row.output_pointer(gradient), result_of)


def _loss_total(
    k: Builder, width: Value, losses: Value, counts: Value, total: Value, *, plan: RowPlan
) -> None:
    """total[0] = sum(losses) / counts[0]."""
    row = Row(k, f32, plan, k.constant(1, u32), width)

    def step(accesses: list[Access], carried: Values) -> Values:
        return (summed(masked_terms(k, accesses, lambda loss: loss), carried[0]),)

    (lane_sum,) = row.fold(row.input_pointer(losses), (k.constant(0.0, f32),), step)
    row.put(total, row.total(lane_sum) / counts[0])


def _kernel(body: Any, name: str, numbers: str, memory: dict[str, Type]) -> KernelDefinition:
    parameters: dict[str, ParameterType] = dict.fromkeys(numbers.split(), u32)
    if "scale" in parameters:
        parameters["scale"] = f32
    parameters |= {parameter: pointer(element) for parameter, element in memory.items()}
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(name, body, parameters, location)


def _cross_entropy_kernel(element: Type, *, with_gradient: bool) -> KernelDefinition:
    memory = {"x": element, "targets": u32, "counts": f32, "losses": f32}
    if with_gradient:
        memory["gradient"] = element
    name = f"cross_entropy{'_gradient' if with_gradient else ''}_{element}"
    return _kernel(_cross_entropy, name, "rows width ignored scale", memory)


COUNT_TARGETS = _kernel(
    _count_targets, "count_targets", "width classes ignored mean", {"targets": u32, "counts": f32}
)
LOSS_TOTAL = _kernel(
    _loss_total, "loss_total", "width", {"losses": f32, "counts": f32, "total": f32}
)
CROSS_ENTROPY = {
    (element, with_gradient): _cross_entropy_kernel(element, with_gradient=with_gradient)
    for element in TYPES
    for with_gradient in (False, True)
}
"""The kernels by the type of the logits, and by whether the gradient is stored."""

_plan = RowPlan(lanes=8, threads=8, vector=4, batch=4, single_step=True)
register("tensor.count_targets", COUNT_TARGETS, plan=_plan)
register("tensor.loss_total", LOSS_TOTAL, plan=_plan)
for _element, _gradient in ((TYPES[0], True), (TYPES[2], True), (TYPES[2], False)):
    _definition = CROSS_ENTROPY[_element, _gradient]
    _plan = RowPlan(lanes=8, threads=8, vector=16 // _element.bytes, batch=4, single_step=True)
    register(f"tensor.{_definition.name}", _definition, element=_element, plan=_plan)
