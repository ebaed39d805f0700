"""Gates inside kernels: what they take, and their coefficients."""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel import Builder, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField


@frozen
class SumForm:
    """Sums over gates with so many `inputs`. Coefficients are numbers and public inputs, or with
    `is_random` challenges; `by_instance` they are constants, each a public input an instance."""

    field: FieldSpec
    inputs: int
    is_random: bool = False
    by_instance: bool = False
    has_public: bool = False


@frozen(eq=False)
class Gate:
    """A gate in an instance: numbers of its output and its inputs, and its coefficient's code."""

    output: Value
    inputs: list[Value]
    code: Value
    instance: Value


class Gates:
    """The gates of a sum, for one proof."""

    def __init__(
        self, k: Builder, mixed: MixedField, form: SumForm, columns: tuple[Value, Value],
        numbers: tuple[Value, Value, Value, Value], drawn: tuple[Value, Value, Value],
        proof: Value,
    ) -> None:  # fmt: skip
        """`columns` are where those of outputs, inputs and coefficients are, and how long each one
        is; `numbers` where coefficients are, how many of the circuit there are before the public
        inputs, the number of these, and the logarithm of the instances; `drawn` where challenges
        are, how many there are of a proof, and the first random coefficient."""
        self._k, self._mixed, self._form, self._columns = k, mixed, form, columns
        self._numbers, self._drawn, self._proof = numbers, drawn, proof

    def at(self, item: Value) -> Gate:
        """The gate of an item: `by_instance` there is one for each instance of a gate."""
        k, form, (gates, total) = self._k, self._form, self._columns
        log_instances = self._numbers[-1]
        gate, instance = item, k.constant(0, u32)
        if form.by_instance:
            gate = item >> log_instances
            instance = item - (gate << log_instances)
        output, *inputs, code = [
            k.load(gates, gate + total * column)[0] for column in range(form.inputs + 2)
        ]
        return Gate(output, inputs, code, instance)

    def times_coefficient(self, weight: Any, gate: Gate) -> Any:
        """The weight of a gate's output times its coefficient."""
        f, mixed = self._mixed.extended, self._mixed
        return f.carried(mixed.multiply(weight, self._coefficient(gate.code, gate.instance)))

    def _coefficient(self, code: Value, instance: Value) -> Any:
        form, f, base = self._form, self._mixed.extended, self._mixed.base
        if form.is_random:
            challenges, messages, first = self._drawn
            return f.carried(f.load(challenges, self._proof * messages + first + code))
        coefficients, numbers, public, log_instances = self._numbers
        if form.has_public:
            entry = ((self._proof * public + code - numbers) << log_instances) + instance + numbers
            code = self._k.select(code < numbers, code, entry)
        return base.carried(base.load(coefficients, code))
