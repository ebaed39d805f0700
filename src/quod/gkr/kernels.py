"""The kernels of layered circuits' proofs by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.gkr.checker import kernels as checker
from quod.gkr.checker import verdicts
from quod.gkr.prover import kernels as prover
from quod.gkr.prover import steps
from quod.kernel.registry import register
from quod.transcript.hashes import Hash

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
    f"gkr.read_messages[{_FIELD.name}]", checker.read_messages, field=_FIELD, hash=Hash.SHA3_256,
    most_words=12, alone=False,
)  # fmt: skip
for _definition in (
    checker.expand_factors, checker.expand_tables, verdicts.check_claims, verdicts.check_layers,
):  # fmt: skip
    register(f"gkr.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(f"gkr.add_gates[{_FIELD.name}]", checker.add_gates, form=checker.SumForm(_FIELD, 2))
register(
    f"gkr.evaluate_tables[{_FIELD.name}]", checker.evaluate_tables, field=_FIELD, claims=2
)  # fmt: skip
