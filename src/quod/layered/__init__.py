"""Layered circuits, whose gates read the layer below, and programs of wires that become circuits.

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
else:
    __getattr__, __dir__ = lazy_names(__name__)
