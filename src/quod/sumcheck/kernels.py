"""The kernels of sumchecks by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.kernel.registry import register
from quod.sumcheck.eq_tables import equality_pyramids, invert_points
from quod.sumcheck.final_rounds import FinalForm
from quod.sumcheck.final_rounds_thread import finish_alone
from quod.sumcheck.final_rounds_workgroup import finish_sumcheck
from quod.sumcheck.finish import finish_rounds
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.rounds import PassForm, evaluate_inputs, fold_and_evaluate, sum_inputs
from quod.sumcheck.shape import Shape

_FIELD = EXTENSIONS["m31.4"]
# Products of two tables, one of them over the prime field, weighted by eq.
_SHAPE = Shape(_FIELD, SumOfProducts.product(2), in_base=1, has_point=True)
_FINAL = FinalForm(_SHAPE, log_capacity=8, from_inputs=False, folds=1)

for _definition in (invert_points, equality_pyramids):
    register(f"sumcheck.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(
    f"sumcheck.evaluate_inputs[{_FIELD.name}]", evaluate_inputs,
    form=PassForm(_SHAPE, depth=1, unrolled=2, in_blocks=False),
)  # fmt: skip
register(
    f"sumcheck.fold_and_evaluate[{_FIELD.name}]", fold_and_evaluate,
    form=PassForm(_SHAPE, depth=1, unrolled=1, in_blocks=False, folds=1, from_inputs=False),
)  # fmt: skip
register(
    f"sumcheck.sum_inputs[{_FIELD.name}]", sum_inputs,
    form=PassForm(_SHAPE, depth=1, unrolled=1, in_blocks=False),
)  # fmt: skip
register(f"sumcheck.finish_rounds[{_FIELD.name}]", finish_rounds, shape=_SHAPE, depth=1, at_once=4)
register(f"sumcheck.finish_sumcheck[{_FIELD.name}]", finish_sumcheck, form=_FINAL)
register(f"sumcheck.finish_alone[{_FIELD.name}]", finish_alone, form=_FINAL)
