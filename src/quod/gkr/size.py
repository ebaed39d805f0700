"""The length of GKR proofs, which follows from the circuit."""

from __future__ import annotations

from quod.field.element_bytes import element_bytes
from quod.field.spec import FieldSpec
from quod.gkr.protocol import protocol_steps
from quod.gkr.reduction import Reduction
from quod.gkr.security import check_challenges, log_instances
from quod.layered.circuit import LayeredCircuit


def layer_bytes(
    circuit: LayeredCircuit, field: FieldSpec, instances: int, reduction: Reduction
) -> int:
    """Return the bytes of the messages of all layers: a proof without its commitment."""
    check_challenges(circuit, field)
    steps = protocol_steps(circuit, reduction, log_instances(instances))
    return steps.elements * element_bytes(field)
