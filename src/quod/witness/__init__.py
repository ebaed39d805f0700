"""Witnesses: computed from inputs by circom's calculator in a sandbox, and checked.

    from quod.witness import WitnessCalculator

    calculator = WitnessCalculator.open("circuit.wasm")
    wtns = calculator.calculate({"secret": 7, "siblings": [1, 2, 3]})

`wtns` has the bytes of a .wtns file. A calculator needs wasmtime (the extra ``wasm``).
`check_witness` finds the constraints of a system that a witness fails. All calls are thread-safe.
The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.witness.calculator import WitnessCalculator as WitnessCalculator
    from quod.witness.check import FailedConstraint as FailedConstraint
    from quod.witness.check import WitnessCheck as WitnessCheck
    from quod.witness.check import check_witness as check_witness
    from quod.witness.limits import WitnessLimits as WitnessLimits
else:
    __getattr__, __dir__ = lazy_names(__name__)
