"""Gates inside kernels: their outputs, inputs and coefficients."""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.checker.structs import Challenges, GateTables
from quod.kernel import Builder, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField


@frozen
class SumForm:
    """The static parameters of a sum over gates.

    inputs: the number of inputs of each gate.
    is_random: whether the coefficients are challenges, as opposed to numbers and public inputs.
    by_instance: whether the gates are constants whose public input differs by instance.
    has_public: whether coefficients may be public inputs.
    """

    field: FieldSpec
    inputs: int
    is_random: bool = False
    by_instance: bool = False
    has_public: bool = False


@frozen(eq=False)
class Gate:
    """A gate in an instance: the wires of its output and inputs, and its coefficient's code."""

    output: Value
    inputs: list[Value]
    code: Value
    instance: Value


class Gates:
    """The gates of a sum, for one proof."""

    def __init__(
        self, k: Builder, mixed: MixedField, form: SumForm, tables: GateTables,
        challenges: Challenges, proof: Value,
    ) -> None:  # fmt: skip
        self._k, self._mixed, self._form = k, mixed, form
        self._tables, self._challenges, self._proof = tables, challenges, proof

    def at(self, item: Value) -> Gate:
        """Return the gate of an item; with `by_instance` each instance of a gate is an item."""
        k, form, tables = self._k, self._form, self._tables
        gate, instance = item, k.constant(0, u32)
        if form.by_instance:
            gate = item >> tables.log_instances
            instance = item - (gate << tables.log_instances)
        output, *inputs, code = [
            k.load(tables.gates, gate + tables.total * column)[0]
            for column in range(form.inputs + 2)
        ]
        return Gate(output, inputs, code, instance)

    def times_coefficient(self, weight: Any, gate: Gate) -> Any:
        """Return the weight of a gate's output times its coefficient."""
        f, mixed = self._mixed.extended, self._mixed
        return f.bounded(mixed.multiply(weight, self._coefficient(gate.code, gate.instance)))

    def _coefficient(self, code: Value, instance: Value) -> Any:
        form, f, base = self._form, self._mixed.extended, self._mixed.base
        if form.is_random:
            challenges = self._challenges
            first_random = self._proof * challenges.stride + challenges.first_random
            return f.bounded(f.load(challenges.elements, first_random + code))
        tables = self._tables
        if form.has_public:
            public_index = self._proof * tables.public + code - tables.numbers
            entry = (public_index << tables.log_instances) + instance + tables.numbers
            code = self._k.select(code < tables.numbers, code, entry)
        return base.bounded(base.load(tables.coefficients, code))
