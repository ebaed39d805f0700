"""Gates inside kernels: their coefficients."""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel import Builder
from quod.kernel.value import Value
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


class Coefficients:
    """The coefficients of gates, for one proof."""

    def __init__(
        self, k: Builder, mixed: MixedField, form: SumForm,
        numbers: tuple[Value, Value, Value, Value], drawn: tuple[Value, Value, Value],
        proof: Value,
    ) -> None:  # fmt: skip
        """`numbers` are where coefficients are, how many of the circuit there are before the public
        inputs, the number of these, and the logarithm of the instances; `drawn` where challenges
        are, how many there are of a proof, and the first random coefficient."""
        self._k, self._mixed, self._form = k, mixed, form
        self._numbers, self._drawn, self._proof = numbers, drawn, proof

    def at(self, code: Value, instance: Value) -> Any:
        """That of a gate, by its code, in an instance."""
        form, f, base = self._form, self._mixed.extended, self._mixed.base
        if form.is_random:
            challenges, messages, first = self._drawn
            return f.carried(f.load(challenges, self._proof * messages + first + code))
        coefficients, numbers, public, log_instances = self._numbers
        if form.has_public:
            entry = ((self._proof * public + code - numbers) << log_instances) + instance + numbers
            code = self._k.select(code < numbers, code, entry)
        return base.carried(base.load(coefficients, code))
