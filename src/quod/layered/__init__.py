"""Circuits: layered ones, whose gates take values of the layer below, and programs of wires.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.layered.builder import CircuitBuilder as CircuitBuilder
    from quod.layered.circuit import LayeredCircuit as LayeredCircuit
    from quod.layered.circuit import Public as Public
    from quod.layered.circuit import Random as Random
    from quod.layered.circuit6 import from_circuit6 as from_circuit6
    from quod.layered.circuit6 import to_circuit6 as to_circuit6
    from quod.layered.file import read_circuit as read_circuit
    from quod.layered.file import write_circuit as write_circuit
    from quod.layered.layout import Layout as Layout
    from quod.layered.program import Program as Program
    from quod.layered.table import Table as Table
    from quod.layered.wire import Wire as Wire

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
    "CircuitBuilder": "quod.layered.builder",
    "LayeredCircuit": "quod.layered.circuit",
    "Layout": "quod.layered.layout",
    "Program": "quod.layered.program",
    "Public": "quod.layered.circuit",
    "Random": "quod.layered.circuit",
    "Table": "quod.layered.table",
    "Wire": "quod.layered.wire",
    "from_circuit6": "quod.layered.circuit6",
    "to_circuit6": "quod.layered.circuit6",
    "read_circuit": "quod.layered.file",
    "write_circuit": "quod.layered.file",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
