"""The kernels of layered circuits' proofs by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.gkr.checker import equality, inputs, reading
from quod.gkr.checker.columns import kernels as checked_columns
from quod.gkr.checker.columns import verdicts as column_verdicts
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.places import kernels as checked_places
from quod.gkr.checker.places import verdicts as place_verdicts
from quod.gkr.prover import boundary, steps
from quod.gkr.prover import kernels as prover
from quod.gkr.prover.columns import kernels as columns
from quod.gkr.prover.columns import steps as column_steps
from quod.hash.table import Hash
from quod.kernel.registry import register

_FIELD = EXTENSIONS["m31.4"]
# A layer above the inputs with sums and products, and coefficients that are numbers.
_FORM = prover.GateForm(_FIELD, ("add", "multiply"), False, False, True)
_PRODUCTS = prover.GateForm(_FIELD, ("multiply",), False, False, True)
_CONSTANTS = prover.GateForm(_FIELD, ("constant",), False, False, True)

register(f"gkr.layer_values[{_FIELD.name}]", prover.layer_values, form=_FORM)
register(f"gkr.corner_weights[{_FIELD.name}]", prover.corner_weights, field=_FIELD, claims=2,
         log_each=3)  # fmt: skip
register(f"gkr.collapse_instances[{_FIELD.name}]", prover.collapse_instances, field=_FIELD,
         is_base=True, by_workgroup=True)  # fmt: skip
register(f"gkr.first_phase[{_FIELD.name}]", prover.first_phase, form=_FORM)
register(f"gkr.second_phase[{_FIELD.name}]", prover.second_phase, form=_PRODUCTS)

register(f"gkr.place_inputs[{_FIELD.modulus.name}]", boundary.place_inputs, words=1, at_once=8)
register(
    f"gkr.count_below[{_FIELD.modulus.name}]", boundary.count_below, words=1,
    bound=_FIELD.modulus.value,
)  # fmt: skip

for _definition in (steps.begin_proofs, steps.set_points):
    register(f"gkr.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(f"gkr.begin_first_sumcheck[{_FIELD.name}]", steps.begin_first_sumcheck, form=_CONSTANTS)
register(f"gkr.end_first_sumcheck[{_FIELD.name}]", steps.end_first_sumcheck, field=_FIELD, values=2)
register(
    f"gkr.begin_second_sumcheck[{_FIELD.name}]", steps.begin_second_sumcheck, field=_FIELD,
    at_once=4,
)  # fmt: skip
register(
    f"gkr.end_second_sumcheck[{_FIELD.name}]", steps.end_second_sumcheck, field=_FIELD,
    is_last=False,
)  # fmt: skip

register(
    f"gkr.columns.column_values[{_FIELD.name}]", columns.column_values, form=_FORM, narrow=False
)  # fmt: skip
register(f"gkr.columns.term_weights[{_FIELD.name}]", columns.term_weights, form=_FORM)
register(
    f"gkr.columns.evaluate_columns[{_FIELD.name}]", columns.evaluate_columns,
    form=columns.TermForm(_FIELD, ("add", "multiply"), 2, "base", 2, narrow=False),
)  # fmt: skip
register(
    f"gkr.columns.fold_columns[{_FIELD.name}]", columns.fold_columns, field=_FIELD, source="base",
    by="round", folds=2, narrow=False,
)  # fmt: skip
register(f"gkr.columns.combine_values[{_FIELD.name}]", column_steps.combine_values, field=_FIELD)
for _definition in (column_steps.digest_values, column_steps.end_layer):
    register(
        f"gkr.columns.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD,
        hash=Hash.SHA3_256,
    )  # fmt: skip

register(
    f"gkr.read_messages[{_FIELD.name}]", reading.read_messages, field=_FIELD, hash=Hash.SHA3_256,
    most_words=12, alone=False,
)  # fmt: skip
register(
    f"gkr.hash_runs[{_FIELD.name}]", reading.hash_runs, field=_FIELD, hash=Hash.SHA3_256
)  # fmt: skip
for _definition in (equality.expand_factors, equality.expand_tables):
    register(f"gkr.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(f"gkr.check_claims[{_FIELD.name}]", inputs.check_claims, field=_FIELD, evaluates=True)
register(f"gkr.evaluate_tables[{_FIELD.name}]", inputs.evaluate_tables, field=_FIELD, claims=2)
register(
    f"gkr.places.add_gates[{_FIELD.name}]", checked_places.add_gates, form=SumForm(_FIELD, 2)
)  # fmt: skip
register(f"gkr.places.check_layers[{_FIELD.name}]", place_verdicts.check_layers, field=_FIELD)
register(f"gkr.columns.add_values[{_FIELD.name}]", checked_columns.add_values, field=_FIELD)
register(
    f"gkr.columns.add_gates[{_FIELD.name}]", checked_columns.add_gates, form=SumForm(_FIELD, 2)
)  # fmt: skip
register(f"gkr.columns.check_layers[{_FIELD.name}]", column_verdicts.check_layers, field=_FIELD)
