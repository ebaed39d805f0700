"""How the small arrays of a batch of sumchecks lie in three buffers.

A kernel of WebGPU reaches few buffers, so that what belongs together is one. All arrays are of
elements of the field of challenges, but for the states of transcripts.

`equality`  the coordinates of the points and their inverses, then pyramids (`Weights`, `Equality`),
            then what multiplies terms (`Scales`)
`progress`  claims, challenges, states of transcripts (`Progress`)
`proof`     messages, as the transcript has them, then values of the tables (`Proof`)
"""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.hash.function import STATE_WORDS
from quod.hash.words import Words
from quod.kernel.ir.value import Value
from quod.sumcheck.eq_tables import pyramid_entries
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import SumcheckSizes
from quod.transcript.chain import Chain


class Progress:
    """Where a sumcheck of a batch stands, inside kernels."""

    def __init__(self, f: Any, memory: Value, batch: Value, number: Value, log_size: Value) -> None:
        self._f, self._memory, self._number = f, memory, number
        self._words: int = f.word_count * f.word_type.bits // 32
        self._challenges = batch + number * log_size
        self._states = batch + batch * log_size

    @staticmethod
    def words(field: FieldSpec, batch: int, log_size: int) -> int:
        """32-bit words of the buffer."""
        return batch * ((1 + log_size) * field.words + STATE_WORDS)

    def claim(self) -> Any:
        """What the rest of the sum is."""
        return self._f.carried(self._f.load(self._memory, self._number))

    def set_claim(self, claim: Any) -> None:
        self._f.store(self._memory, self._number, claim)

    def challenge(self, round_number: Value) -> Any:
        """The challenge of a round."""
        return self._f.carried(self._f.load(self._memory, self._challenges + round_number))

    def set_challenge(self, round_number: Value, challenge: Any) -> None:
        self._f.store(self._memory, self._challenges + round_number, challenge)

    def state(self, chain: Chain) -> Words:
        """The state of the transcript."""
        return chain.load(self._memory, self._state_place())

    def set_state(self, chain: Chain, state: Words) -> None:
        chain.store(self._memory, self._state_place(), state)

    def _state_place(self) -> Value:
        return self._states * self._words + self._number * STATE_WORDS


class Proof:
    """What a sumcheck of a batch sends, inside kernels."""

    def __init__(
        self, f: Any, memory: Value, batch: Value, number: Value, log_size: Value, degree: int
    ) -> None:
        self._f, self._memory, self._batch, self._number = f, memory, batch, number
        self._log_size, self._degree = log_size, degree

    @staticmethod
    def words(field: FieldSpec, batch: int, log_size: int, degree: int, tables: int) -> int:
        """32-bit words of the buffer."""
        return batch * (log_size * degree + tables) * field.words

    def set_message(self, round_number: Value, message: Words) -> None:
        """The message of a round."""
        place = (self._number * self._log_size + round_number) * len(message)
        self._f.k.store(self._memory, place, *message)

    def set_value(self, table: int, value: Any) -> None:
        """The value of a table at the point of all challenges."""
        start = self._batch * self._log_size * self._degree
        self._f.store(self._memory, start + table * self._batch + self._number, value)


class Weights:
    """The coordinates of a sumcheck's point and their inverses, inside kernels."""

    def __init__(self, f: Any, memory: Value, number: Value, log_size: Value) -> None:
        self._f, self._memory = f, memory
        self._first = number * log_size

    def coordinate(self, variable: Value) -> Any:
        return self._f.carried(self._f.load(self._memory, 2 * (self._first + variable)))

    def inverse(self, variable: Value) -> Any:
        return self._f.carried(self._f.load(self._memory, 2 * (self._first + variable) + 1))


class Scales:
    """The elements that multiply terms of a sumcheck's polynomial, inside kernels."""

    @staticmethod
    def first(has_point: bool, batch: Any, log_size: Any, log_low: Any) -> Any:
        """Where those of a batch begin, in elements."""
        if not has_point:
            return 0
        return batch * (2 * log_size + pyramid_entries(log_size, log_low))

    @staticmethod
    def of_terms(
        f: Any, shape: Shape, memory: Value, sizes: SumcheckSizes, number: Value
    ) -> list[Any]:
        """Of sumcheck `number` that of each term, None for none."""
        count = shape.scale_count
        if not count:
            return [None] * len(shape.polynomial.terms)
        first = Scales.first(shape.has_point, sizes.batch, sizes.log_size, sizes.log_low)
        start = number * count + first
        found = [f.carried(f.load(memory, start + place)) for place in range(count)]
        return [None if scale is None else found[scale] for scale in shape.scales]
