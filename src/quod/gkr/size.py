"""How long proofs are: what follows from a circuit, without making one."""

from __future__ import annotations

from quod.field.spec import FieldSpec
from quod.gkr.reduction import Reduction, by_reduction, degree_by_columns, taken_places
from quod.gkr.security import check_challenges, degree_of, is_linear, log_instances
from quod.layered.circuit import LayeredCircuit
from quod.transcript.elements import element_bytes


def layer_bytes(
    circuit: LayeredCircuit, field: FieldSpec, instances: int, reduction: Reduction
) -> int:
    """Bytes of the messages of all layers: a proof less what its commitment takes."""
    check_challenges(circuit, field)
    more, layers = log_instances(instances), range(len(circuit.layers))
    by = by_reduction(reduction, places=_by_places, columns=_by_columns)
    return sum(by(circuit, number, more) for number in layers) * element_bytes(field)


def _by_places(circuit: LayeredCircuit, number: int, more: int) -> int:
    """Elements of a layer's messages."""
    kinds, below = circuit.kinds[number], circuit.log_below(number)
    first = (below if is_linear(kinds) else below + more) * degree_of(kinds) + 1
    # The value that multiplies, and the second sumcheck with a value.
    return first + ("multiply" in kinds) * (2 + 2 * below)


def _by_columns(circuit: LayeredCircuit, number: int, more: int) -> int:
    degree = degree_by_columns(circuit.kinds[number])
    return len(taken_places(circuit, number)) + (degree > 1) * degree * more
