"""A circuit in device memory for data-parallel proofs: the terms of each layer, and their gates.

A term is a product of values below a layer; all gates with that product share the term.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.frozen import frozen
from quod.gkr.prover.gate_tables import Constants, GateTables, SortedGates
from quod.gkr.prover.gates import GateForm
from quod.gkr.reduction import find_claimed_wires, find_sent_wires
from quod.layered.circuit import KINDS

Words = NDArray[np.uint32]

_NOTHING = np.zeros(2, np.uint32)


@frozen(eq=False)
class Terms:
    """The products of values below a layer whose weighted sums are the layer's claimed values.

    kinds: the kinds of the terms.
    count: the number of terms.
    bounds: the index of the first term of each kind, then the number of terms.
    operands: two wires below the layer per term.
    folded: the operands as indices among the wires whose values the proof contains.
    starts: the word offset of each term's gates, then the number of words.
    gates: an output and a coefficient's code per gate.
    form: the static parameters of kernels over the gates.
    """

    kinds: tuple[str, ...]
    count: int
    bounds: Buffer
    operands: Buffer
    folded: Buffer
    starts: Buffer
    gates: Buffer
    form: GateForm


@frozen(eq=False)
class DataParallelLayer:
    """The gates of a layer.

    by_output: all gates, sorted by output.
    terms: the products of values below that its gates sum.
    constants: the constant gates whose outputs are claimed.
    sent_wires: the wires below whose values the proof contains.
    sent_count: the number of these wires.
    """

    by_output: SortedGates
    terms: Terms
    constants: Constants
    sent_wires: Buffer
    sent_count: int


class DataParallelGates(GateTables[DataParallelLayer]):
    """A circuit in device memory whose gates are grouped by term."""

    def _layer(self, layer_index: int) -> DataParallelLayer:
        circuit = self.circuit
        sent_wires = find_sent_wires(circuit, layer_index)
        claimed = np.zeros(1 << circuit.layers[layer_index].log_size, bool)
        claimed[find_claimed_wires(circuit, layer_index)] = True
        return DataParallelLayer(
            self._by_output(layer_index),
            self._terms(layer_index, claimed, sent_wires),
            self._constants(layer_index, claimed),
            self.device.upload(sent_wires),
            len(sent_wires),
        )

    def _terms(self, layer_index: int, claimed: NDArray[np.bool_], sent_wires: Words) -> Terms:
        kinds = tuple(
            kind for kind in KINDS if kind != "constant" and kind in self.circuit.kinds[layer_index]
        )
        no_rows = np.zeros((0, 2), np.uint32)
        operands, gates = [no_rows], [no_rows]
        counts, bounds = [np.zeros(1, np.uint32)], [0]
        for kind in kinds:
            kind_gates = self.circuit.layers[layer_index].gates[kind]
            is_claimed = claimed[kind_gates.output]
            pairs = np.sort(
                np.stack([kind_gates.inputs[0], kind_gates.inputs[-1]], axis=1)[is_claimed], axis=1
            )
            rows = np.stack(
                [kind_gates.output, self._coefficient_codes[kind_gates.coefficient]], axis=1
            )[is_claimed]
            products, term_indices = np.unique(pairs, axis=0, return_inverse=True)
            term_indices = term_indices.reshape(-1)
            operands.append(products)
            gates.append(rows[np.argsort(term_indices, kind="stable")])
            counts.append(np.bincount(term_indices, minlength=len(products)).astype(np.uint32))
            bounds.append(bounds[-1] + len(products))
        rows = np.concatenate(operands)
        return Terms(
            kinds,
            bounds[-1],
            self._upload(np.array(bounds, np.uint32)),
            self._upload(rows),
            self._upload(np.searchsorted(sent_wires, rows).astype(np.uint32)),
            self._upload(2 * np.cumsum(np.concatenate(counts), dtype=np.uint32)),
            self._upload(np.concatenate(gates)),
            self._form(layer_index, kinds),
        )

    def _upload(self, words: Words) -> Buffer:
        """Upload words, or two zeros if there are none, because a buffer cannot be empty."""
        return self.device.upload(np.ascontiguousarray(words) if words.size else _NOTHING)
