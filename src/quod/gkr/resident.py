"""A circuit in the memory of a device: its gates, sorted for each of their uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.circuit.layered import LayeredCircuit
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers
from quod.frozen import frozen
from quod.gkr.kernels import FIFTH, NONE

Words = NDArray[np.uint32]


@frozen(eq=False)
class Runs:
    """Gates in runs: those of entry i are ``starts[i]`` to ``starts[i + 1]``."""

    entries: int
    starts: Buffer
    gates: Buffer


@frozen(eq=False)
class ResidentLayer:
    """A layer's gates by output, by first input, those of powers and of products alone."""

    by_output: Runs
    by_first: Runs
    powers: Runs | None
    products: Runs | None


class ResidentCircuit:
    """A circuit on a device."""

    def __init__(self, device: AnyDevice, circuit: LayeredCircuit) -> None:
        self.device, self.circuit = device, circuit
        self.coefficients = device.upload(from_integers(circuit.field, circuit.coefficients or [0]))
        self.layers = [self._layer(number) for number in range(len(circuit.layers))]

    def _layer(self, number: int) -> ResidentLayer:
        layer, below = self.circuit.layers[number], 1 << self.circuit.log_below(number)
        values = 1 << layer.log_size
        rows = {}
        for kind, gates in layer.gates.items():
            count = len(gates)
            none = np.full(count, NONE, np.uint32)
            first = gates.inputs[0] if gates.inputs else none
            second = none
            if kind == "multiply":
                second = gates.inputs[1]
            elif kind == "power5":
                second = np.full(count, FIFTH, np.uint32)
            rows[kind] = np.stack([gates.output, first, second, gates.coefficient], axis=1)
        every = np.concatenate(list(rows.values()))
        linear = np.concatenate([rows["add"], rows["multiply"]])
        powers, products = rows["power5"].copy(), rows["multiply"]
        powers[:, 2] = NONE
        return ResidentLayer(
            self._runs(every, 0, (1, 2, 3), values),
            self._runs(linear, 1, (0, 2, 3), below),
            self._runs(powers, 1, (0, 2, 3), below) if len(powers) else None,
            self._runs(products, 2, (0, 1, 3), below) if len(products) else None,
        )

    def _runs(self, rows: Words, key: int, kept: Sequence[int], entries: int) -> Runs:
        """Rows by one of their columns, of each the columns that are kept."""
        keys = rows[:, key]
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], np.arange(entries + 1)).astype(np.uint32)
        gates = np.ascontiguousarray(rows[order][:, list(kept)], np.uint32)
        if not len(gates):
            gates = np.zeros((1, 3), np.uint32)
        return Runs(entries, self.device.upload(starts), self.device.upload(gates))
