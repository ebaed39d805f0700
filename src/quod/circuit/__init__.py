"""Circuits: layered ones, whose gates take values of the layer below.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.circuit.builder import CircuitBuilder as CircuitBuilder
    from quod.circuit.layered import LayeredCircuit as LayeredCircuit
    from quod.circuit.layered import Public as Public
    from quod.circuit.layered import Random as Random

__all__ = ["CircuitBuilder", "LayeredCircuit", "Public", "Random"]

_HOME = {
    "CircuitBuilder": "quod.circuit.builder",
    "LayeredCircuit": "quod.circuit.layered",
    "Public": "quod.circuit.layered",
    "Random": "quod.circuit.layered",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
