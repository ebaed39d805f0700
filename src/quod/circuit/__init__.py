"""Circuits: layered ones, whose gates take values of the layer below.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.circuit.layered import CircuitBuilder as CircuitBuilder
    from quod.circuit.layered import LayeredCircuit as LayeredCircuit

__all__ = ["CircuitBuilder", "LayeredCircuit"]

_HOME = {
    "CircuitBuilder": "quod.circuit.layered",
    "LayeredCircuit": "quod.circuit.layered",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
