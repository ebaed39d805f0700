"""Circuits: layered ones, whose gates take values of the layer below, and programs of wires.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.circuit.builder import CircuitBuilder as CircuitBuilder
    from quod.circuit.circuit6 import from_circuit6 as from_circuit6
    from quod.circuit.circuit6 import to_circuit6 as to_circuit6
    from quod.circuit.file import read_circuit as read_circuit
    from quod.circuit.file import write_circuit as write_circuit
    from quod.circuit.layered import LayeredCircuit as LayeredCircuit
    from quod.circuit.layered import Public as Public
    from quod.circuit.layered import Random as Random
    from quod.circuit.layout import Layout as Layout
    from quod.circuit.program import Program as Program
    from quod.circuit.table import Table as Table
    from quod.circuit.wire import Wire as Wire

__all__ = [
    "CircuitBuilder",
    "LayeredCircuit",
    "Layout",
    "Program",
    "Public",
    "Random",
    "Table",
    "Wire",
    "read_circuit",
    "write_circuit",
    "from_circuit6",
    "to_circuit6",
]

_HOME = {
    "CircuitBuilder": "quod.circuit.builder",
    "LayeredCircuit": "quod.circuit.layered",
    "Layout": "quod.circuit.layout",
    "Program": "quod.circuit.program",
    "Public": "quod.circuit.layered",
    "Random": "quod.circuit.layered",
    "Table": "quod.circuit.table",
    "Wire": "quod.circuit.wire",
    "from_circuit6": "quod.circuit.circuit6",
    "to_circuit6": "quod.circuit.circuit6",
    "read_circuit": "quod.circuit.file",
    "write_circuit": "quod.circuit.file",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
