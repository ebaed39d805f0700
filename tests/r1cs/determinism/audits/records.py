"""Records of vulnerable circuits, rebuilt from the descriptions in public reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quod import r1cs
from quod.r1cs.system import Operand

System = r1cs.ConstraintSystem


class Audit(NamedTuple):
    """A vulnerable circuit and its mended version.

    name, source: the fault; the report that describes it.
    circuit: builds the circuit; its second argument is true for the mended version.
    """

    name: str
    source: str
    circuit: Callable[[System, bool], None]


BUG_TRACKER = "0xPARC zk-bug-tracker"
CIRCOMLIB = "Veridise, circomlib"
CHACHA = "zkSecurity, Reclaim Protocol ChaCha20"
SCROLL = "Zellic, Scroll zkEVM"


def outputs(system: System, **signals: Operand) -> None:
    """Declare public values that the circuit computes."""
    for name, signal in signals.items():
        system.output(name, signal)


def xor(system: System, a: r1cs.Signal, b: r1cs.Signal) -> r1cs.Signal:
    """The exclusive or of two bits."""
    return a + b - 2 * system.multiply(a, b)
