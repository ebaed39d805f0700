"""The kernels of layered circuits' proofs by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.gkr.checker import equality, inputs, reading
from quod.gkr.checker.data_parallel import kernels as data_parallel_sums
from quod.gkr.checker.data_parallel import verdicts as data_parallel_verdicts
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.two_phase import kernels as two_phase_sums
from quod.gkr.checker.two_phase import verdicts as two_phase_verdicts
from quod.gkr.prover import boundary, kernels, steps
from quod.gkr.prover.data_parallel import kernels as data_parallel
from quod.gkr.prover.data_parallel import steps as data_parallel_steps
from quod.gkr.prover.gates import GateForm
from quod.gkr.prover.two_phase import kernels as two_phase
from quod.gkr.prover.two_phase import steps as two_phase_steps
from quod.hash.table import Hash
from quod.kernel.registry import register

_FIELD = EXTENSIONS["m31.4"]
# A layer above the inputs with sums and products, and coefficients that are numbers.
_FORM = GateForm(_FIELD, ("add", "multiply"), False, False, True)
_PRODUCTS = GateForm(_FIELD, ("multiply",), False, False, True)
_CONSTANTS = GateForm(_FIELD, ("constant",), False, False, True)

register(f"gkr.layer_values[{_FIELD.name}]", two_phase.layer_values, form=_FORM)
register(f"gkr.corner_weights[{_FIELD.name}]", kernels.corner_weights, field=_FIELD, claims=2,
         log_each=3)  # fmt: skip
register(f"gkr.collapse_instances[{_FIELD.name}]", kernels.collapse_instances, field=_FIELD,
         is_base=True, by_workgroup=True)  # fmt: skip
register(f"gkr.first_phase[{_FIELD.name}]", two_phase.first_phase, form=_FORM)
register(f"gkr.second_phase[{_FIELD.name}]", two_phase.second_phase, form=_PRODUCTS)

register(f"gkr.place_inputs[{_FIELD.modulus.name}]", boundary.place_inputs, words=1, at_once=8)
register(
    f"gkr.count_below[{_FIELD.modulus.name}]", boundary.count_below, words=1,
    bound=_FIELD.modulus.value,
)  # fmt: skip

for _definition in (steps.begin_proofs, steps.set_points):
    register(f"gkr.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(f"gkr.begin_first_sumcheck[{_FIELD.name}]", steps.begin_first_sumcheck, form=_CONSTANTS)
register(
    f"gkr.end_first_sumcheck[{_FIELD.name}]", two_phase_steps.end_first_sumcheck, field=_FIELD,
    value_count=2,
)  # fmt: skip
register(
    f"gkr.begin_second_sumcheck[{_FIELD.name}]", two_phase_steps.begin_second_sumcheck,
    field=_FIELD, at_once=4,
)  # fmt: skip
register(
    f"gkr.end_second_sumcheck[{_FIELD.name}]", two_phase_steps.end_second_sumcheck, field=_FIELD,
    is_last=False,
)  # fmt: skip

register(
    f"gkr.columns.column_values[{_FIELD.name}]", data_parallel.column_values, form=_FORM,
    narrow=False,
)  # fmt: skip
register(f"gkr.columns.term_weights[{_FIELD.name}]", data_parallel.term_weights, form=_FORM)
register(
    f"gkr.columns.evaluate_columns[{_FIELD.name}]", data_parallel.evaluate_columns,
    form=data_parallel.TermForm(_FIELD, ("add", "multiply"), 2, "base", 2, narrow=False),
)  # fmt: skip
register(
    f"gkr.columns.fold_columns[{_FIELD.name}]", data_parallel.fold_columns,
    form=data_parallel.FoldForm(_FIELD, "base", by="round", folds=2, narrow=False),
)  # fmt: skip
register(
    f"gkr.columns.combine_values[{_FIELD.name}]", data_parallel_steps.combine_values, field=_FIELD
)
for _definition in (data_parallel_steps.digest_values, data_parallel_steps.end_layer):
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
    f"gkr.places.add_gates[{_FIELD.name}]", two_phase_sums.add_gates, form=SumForm(_FIELD, 2)
)  # fmt: skip
register(f"gkr.places.check_layers[{_FIELD.name}]", two_phase_verdicts.check_layers, field=_FIELD)
register(f"gkr.columns.add_values[{_FIELD.name}]", data_parallel_sums.add_values, field=_FIELD)
register(
    f"gkr.columns.add_gates[{_FIELD.name}]", data_parallel_sums.add_gates, form=SumForm(_FIELD, 2)
)  # fmt: skip
register(
    f"gkr.columns.check_layers[{_FIELD.name}]", data_parallel_verdicts.check_layers, field=_FIELD
)
