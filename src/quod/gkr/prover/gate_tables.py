"""A circuit in device memory: the gates of each layer, sorted by one of their wires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.prover.gates import PUBLIC_TAG, RANDOM_TAG, TAG_SHIFT, GateForm
from quod.layered.circuit import KINDS, LayeredCircuit, Public, Random

Words = NDArray[np.uint32]

L = TypeVar("L")


@frozen(eq=False)
class SortedGates:
    """Gates of several kinds, sorted by one of their wires.

    form: the static parameters of kernels; its kinds of gates are in the order of `starts`.
    starts: for each kind n + 1 word offsets into `gates`, n being the number of wires by which the
        gates are sorted, as in a CSR matrix.
    gates: a row for each gate: its other wires, and the code of its coefficient.
    """

    form: GateForm
    starts: Buffer
    gates: Buffer


@frozen(eq=False)
class Constants:
    """The constant gates of a layer.

    gates: a row for each gate: its output, and the code of its coefficient.
    form: the static parameters of kernels over these gates.
    count: the number of gates.
    """

    gates: Buffer
    form: GateForm
    count: int


class GateTables(ABC, Generic[L]):
    """A circuit in device memory for a field of challenges; L is a reduction's record of a layer.

    It has the coefficients, and for each layer the tables of gates that a reduction reads.
    """

    def __init__(self, device: AnyDevice, circuit: LayeredCircuit, field: FieldSpec) -> None:
        self.device, self.circuit, self.field = device, circuit, field
        integers = [c if isinstance(c, int) else 0 for c in circuit.coefficients] or [0]
        self.integer_coefficients = from_integers(circuit.field, integers)
        """The integer coefficients in Montgomery form; 0 in place of the others."""
        self._coefficient_codes = np.array(
            [_coefficient_code(index, c) for index, c in enumerate(circuit.coefficients)] or [0]
        )
        self._coefficient_codes = self._coefficient_codes.astype(np.uint32)
        self.values_are_base = [True]
        """For the inputs and then each layer: True if its values are in the prime field."""
        self.layers = [self._layer(index) for index in range(len(circuit.layers))]

    @abstractmethod
    def _layer(self, layer_index: int) -> L:
        """Return the tables of a layer's gates; called from the lowest layer up."""

    def _by_output(self, layer_index: int) -> SortedGates:
        """Return all gates of a layer, sorted by output.

        Also appends to `values_are_base` whether the layer's values are in the prime field. Call it
        once a layer, from the lowest layer up: this follows from the field of the values below.
        """
        kinds = tuple(kind for kind in KINDS if kind in self.circuit.kinds[layer_index])
        sorted_gates = self._sort_gates(
            layer_index, kinds, "output", 1 << self.circuit.layers[layer_index].log_size
        )
        self.values_are_base.append(
            self.values_are_base[layer_index] and not sorted_gates.form.has_random
        )
        return sorted_gates

    def _constants(self, layer_index: int, claimed: NDArray[np.bool_] | None = None) -> Constants:
        """Return the constants of a layer; with `claimed`, only those with claimed outputs.

        claimed: a bool per wire of the layer, True for a wire that a claim of the reduction is
            about.
        """
        gates = self.circuit.layers[layer_index].gates["constant"]
        rows = np.stack([gates.output, self._coefficient_codes[gates.coefficient]], axis=1)
        if claimed is not None:
            rows = rows[claimed[gates.output]]
        return Constants(
            self.device.upload(np.ascontiguousarray(rows) if len(rows) else np.zeros(2, np.uint32)),
            self._form(layer_index, ("constant",)),
            len(rows),
        )

    def _form(self, layer_index: int, kinds: Sequence[str]) -> GateForm:
        gates = self.circuit.layers[layer_index].gates
        indices = [np.unique(gates[kind].coefficient) for kind in kinds]
        used_indices = np.concatenate([np.zeros(0, np.uint32), *indices]).tolist()
        coefficient_types = {type(self.circuit.coefficients[index]) for index in used_indices}
        return GateForm(
            self.field, tuple(kinds), Public in coefficient_types, Random in coefficient_types,
            self.values_are_base[layer_index],
        )  # fmt: skip

    def _sort_gates(
        self, layer_index: int, kinds: Sequence[str], key: str, wires: int
    ) -> SortedGates:
        """Return gates sorted by the wire `key`: "output", "first" or "second".

        wires: the number of wires from which that wire is; `starts` has wires + 1 offsets per kind.
        """
        starts, rows_by_kind, offset = [], [], 0
        for kind in kinds:
            gates = self.circuit.layers[layer_index].gates[kind]
            columns = {"output": gates.output, **dict(zip(("first", "second"), gates.inputs))}
            keys = columns.pop(key)
            order = np.argsort(keys, kind="stable")
            rows = np.stack(
                [*columns.values(), self._coefficient_codes[gates.coefficient]], axis=1
            )[order]
            kind_starts = np.searchsorted(keys[order], np.arange(wires + 1)) * rows.shape[1]
            starts.append((kind_starts + offset).astype(np.uint32))
            rows_by_kind.append(np.ascontiguousarray(rows, np.uint32).reshape(-1))
            offset += rows.size
        empty = [np.zeros(1, np.uint32)]
        return SortedGates(
            self._form(layer_index, kinds),
            self.device.upload(np.concatenate(starts or empty)),
            self.device.upload(np.concatenate(rows_by_kind) if offset else empty[0]),
        )


def _coefficient_code(index: int, coefficient: int | Public | Random) -> int:
    if isinstance(coefficient, Public):
        return PUBLIC_TAG << TAG_SHIFT | coefficient.number
    if isinstance(coefficient, Random):
        return RANDOM_TAG << TAG_SHIFT | coefficient.number
    return index
