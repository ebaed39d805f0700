"""A circuit in the memory of a device: the gates of each layer, sorted by a column."""

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
class Runs:
    """Gates of several kinds, sorted by one of their wires.

    ``starts`` has for each kind of the form places + 1 offsets in ``gates``. A row of ``gates`` has
    the other wires of the gate and the code of its coefficient.
    """

    form: GateForm
    starts: Buffer
    gates: Buffer


@frozen(eq=False)
class Constants:
    """The constants of a layer: ``gates`` has rows of an output and a coefficient's code."""

    gates: Buffer
    form: GateForm
    count: int


class GateTables(ABC, Generic[L]):
    """A circuit on a device for a field of challenges: its coefficients, and its layers in the
    order that a reduction reads."""

    def __init__(self, device: AnyDevice, circuit: LayeredCircuit, field: FieldSpec) -> None:
        self.device, self.circuit, self.field = device, circuit, field
        numbers = [c if isinstance(c, int) else 0 for c in circuit.coefficients] or [0]
        self.numbers = from_integers(circuit.field, numbers)
        """The coefficients that are numbers, in Montgomery form; 0 in place of the others."""
        self._codes = np.array([_code(at, c) for at, c in enumerate(circuit.coefficients)] or [0])
        self._codes = self._codes.astype(np.uint32)
        self.values_are_base = [True]
        """Per layer, the inputs first: whether its values are in the prime field."""
        self.layers = [self._layer(number) for number in range(len(circuit.layers))]

    @abstractmethod
    def _layer(self, number: int) -> L:
        """The gates of a layer."""

    def _by_output(self, number: int) -> Runs:
        """All gates of a layer, by output.

        Call it from the lowest layer up: the field of a layer's values follows from the field of
        the values below.
        """
        every = tuple(kind for kind in KINDS if kind in self.circuit.kinds[number])
        runs = self._runs(number, every, "output", 1 << self.circuit.layers[number].log_size)
        self.values_are_base.append(self.values_are_base[number] and not runs.form.has_random)
        return runs

    def _constants(self, number: int, claimed: NDArray[np.bool_] | None = None) -> Constants:
        """The constants of a layer, or those whose outputs are claimed."""
        gates = self.circuit.layers[number].gates["constant"]
        rows = np.stack([gates.output, self._codes[gates.coefficient]], axis=1)
        if claimed is not None:
            rows = rows[claimed[gates.output]]
        return Constants(
            self.device.upload(np.ascontiguousarray(rows) if len(rows) else np.zeros(2, np.uint32)),
            self._form(number, ("constant",)),
            len(rows),
        )

    def _form(self, number: int, kinds: Sequence[str]) -> GateForm:
        gates = self.circuit.layers[number].gates
        places = [np.unique(gates[kind].coefficient) for kind in kinds]
        used = np.concatenate([np.zeros(0, np.uint32), *places]).tolist()
        coefficient_types = {type(self.circuit.coefficients[place]) for place in used}
        return GateForm(
            self.field, tuple(kinds), Public in coefficient_types, Random in coefficient_types,
            self.values_are_base[number],
        )  # fmt: skip

    def _runs(self, number: int, kinds: Sequence[str], key: str, entries: int) -> Runs:
        """Gates sorted by the column `key`, with the other columns and the coefficient's code."""
        starts, parts, offset = [], [], 0
        for kind in kinds:
            gates = self.circuit.layers[number].gates[kind]
            columns = {"output": gates.output, **dict(zip(("first", "second"), gates.inputs))}
            keys = columns.pop(key)
            order = np.argsort(keys, kind="stable")
            rows = np.stack([*columns.values(), self._codes[gates.coefficient]], axis=1)[order]
            begins = np.searchsorted(keys[order], np.arange(entries + 1)) * rows.shape[1]
            starts.append((begins + offset).astype(np.uint32))
            parts.append(np.ascontiguousarray(rows, np.uint32).reshape(-1))
            offset += rows.size
        empty = [np.zeros(1, np.uint32)]
        return Runs(
            self._form(number, kinds),
            self.device.upload(np.concatenate(starts or empty)),
            self.device.upload(np.concatenate(parts) if offset else empty[0]),
        )


def _code(place: int, coefficient: int | Public | Random) -> int:
    if isinstance(coefficient, Public):
        return PUBLIC_TAG << TAG_SHIFT | coefficient.number
    if isinstance(coefficient, Random):
        return RANDOM_TAG << TAG_SHIFT | coefficient.number
    return place
