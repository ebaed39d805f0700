"""Witnesses: from inputs by the calculator that circom compiles (`circom --wasm`), in a sandbox.

    from quod.witness import WitnessCalculator

    calculator = WitnessCalculator.open("circuit.wasm")
    wtns = calculator.calculate({"secret": 7, "siblings": [1, 2, 3]})

The bytes are those of a .wtns file. Needs wasmtime (``pip install 'quod[wasm]'``). All calls may
come from any thread. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.witness.calculator import WitnessCalculator as WitnessCalculator
    from quod.witness.limits import WitnessLimits as WitnessLimits

__all__ = ["WitnessCalculator", "WitnessLimits"]

_HOME = {
    "WitnessCalculator": "quod.witness.calculator",
    "WitnessLimits": "quod.witness.limits",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
