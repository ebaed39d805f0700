"""A circuit in device memory, its gates sorted for both phases of each layer."""

from __future__ import annotations

from quod.frozen import frozen
from quod.gkr.prover.gate_tables import Constants, GateTables, SortedGates
from quod.gkr.reduction import exponents_of


@frozen(eq=False)
class TwoPhaseLayer:
    """The gates of a layer.

    by_output: all gates, sorted by output.
    by_first: linear gates and products, sorted by first input.
    powers: for each exponent its gates, sorted by input.
    products: the products sorted by second input; None if there are none.
    constants: the constants in the circuit's order.
    """

    by_output: SortedGates
    by_first: SortedGates
    powers: dict[int, SortedGates]
    products: SortedGates | None
    constants: Constants


class TwoPhaseGates(GateTables[TwoPhaseLayer]):
    """A circuit whose gates are sorted for both phases of each layer."""

    def _layer(self, layer_index: int) -> TwoPhaseLayer:
        kinds, wires_below = (
            self.circuit.kinds[layer_index],
            1 << self.circuit.log_below(layer_index),
        )
        linear_and_products = tuple(kind for kind in ("add", "multiply") if kind in kinds)
        return TwoPhaseLayer(
            self._by_output(layer_index),
            self._sort_gates(layer_index, linear_and_products, "first", wires_below),
            {
                exponent: self._sort_gates(layer_index, (f"power{exponent}",), "first", wires_below)
                for exponent in exponents_of(kinds)
            },
            self._sort_gates(layer_index, ("multiply",), "second", wires_below)
            if "multiply" in kinds
            else None,
            self._constants(layer_index),
        )
