"""Layout of the small arrays of a batch of sumchecks in three buffers.

A WebGPU kernel can bind only a few buffers, so related arrays share one. All arrays have elements
of the field of challenges, except the states of transcripts.

`equality`  coordinates of the points and their inverses (`PointCoordinates`), then partial eq
            tables (`Equality`), then the scales of terms (`TermScales`)
`progress`  claims, challenges, states of transcripts (`SumcheckProgress`)
`proof`     round messages as the words that the transcript absorbs, then final evaluations of the
            tables (`Proof`)

The classes compute offsets, in elements unless they say words. Their parameters: `f` is the field
in the kernel, `memory` the buffer, `batch` the number of sumchecks, `number` the index of one of
them, and `log_size` its number of variables.
"""

from __future__ import annotations

from typing import Any

from quod.field.spec import FieldSpec
from quod.hash.function import STATE_WORDS
from quod.hash.words import Words
from quod.kernel.ir.value import Value
from quod.sumcheck.eq_tables import eq_table_entries
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import SumcheckSizes
from quod.transcript.chain import Chain


class SumcheckProgress:
    """The prover state of one sumcheck of a batch, inside kernels."""

    def __init__(self, f: Any, memory: Value, batch: Value, number: Value, log_size: Value) -> None:
        self._f, self._memory, self._number = f, memory, number
        self._element_words: int = f.word_count * f.word_type.bits // 32
        self._first_challenge = batch + number * log_size
        self._first_state = batch + batch * log_size

    @staticmethod
    def words(field: FieldSpec, batch: int, log_size: int) -> int:
        """Return the size of the buffer in 32-bit words."""
        return batch * ((1 + log_size) * field.words + STATE_WORDS)

    def claim(self) -> Any:
        """Load the current claim."""
        return self._f.bounded(self._f.load(self._memory, self._number))

    def set_claim(self, claim: Any) -> None:
        self._f.store(self._memory, self._number, claim)

    def challenge(self, round_number: Value) -> Any:
        """Load the challenge of a round."""
        return self._f.bounded(self._f.load(self._memory, self._first_challenge + round_number))

    def set_challenge(self, round_number: Value, challenge: Any) -> None:
        self._f.store(self._memory, self._first_challenge + round_number, challenge)

    def state(self, chain: Chain) -> Words:
        """Load the transcript's state."""
        return chain.load(self._memory, self._state_offset())

    def set_state(self, chain: Chain, state: Words) -> None:
        chain.store(self._memory, self._state_offset(), state)

    def _state_offset(self) -> Value:
        """Return the offset of the transcript's state in 32-bit words."""
        return self._first_state * self._element_words + self._number * STATE_WORDS


class Proof:
    """The proof of one sumcheck of a batch, inside kernels."""

    def __init__(
        self, f: Any, memory: Value, batch: Value, number: Value, log_size: Value, degree: int
    ) -> None:
        self._f, self._memory, self._batch, self._number = f, memory, batch, number
        self._log_size, self._degree = log_size, degree

    @staticmethod
    def words(field: FieldSpec, batch: int, log_size: int, degree: int, tables: int) -> int:
        """Return the size of the buffer in 32-bit words."""
        return batch * (log_size * degree + tables) * field.words

    def set_message(self, round_number: Value, message: Words) -> None:
        """Store the message of a round: `degree` elements, as words."""
        offset = (self._number * self._log_size + round_number) * len(message)
        self._f.k.store(self._memory, offset, *message)

    def set_value(self, table: int, value: Any) -> None:
        """Store the evaluation of a table at the challenge point."""
        start = self._batch * self._log_size * self._degree
        self._f.store(self._memory, start + table * self._batch + self._number, value)


class PointCoordinates:
    """The coordinates of the point of a sumcheck's eq factor and their inverses, inside kernels."""

    def __init__(self, f: Any, memory: Value, number: Value, log_size: Value) -> None:
        self._f, self._memory = f, memory
        self._first = number * log_size

    def coordinate(self, variable: Value) -> Any:
        return self._f.bounded(self._f.load(self._memory, 2 * (self._first + variable)))

    def inverse(self, variable: Value) -> Any:
        return self._f.bounded(self._f.load(self._memory, 2 * (self._first + variable) + 1))


class TermScales:
    """The scales of a sumcheck's terms: their coefficients that are known only at run time."""

    @staticmethod
    def offset(has_point: bool, batch: Any, log_size: Any, log_low: Any) -> Any:
        """Return the offset of a batch's scales in `equality`, in elements.

        log_low: the number of variables of the lower eq table (`SumcheckSizes`).
        """
        if not has_point:
            return 0
        return batch * (2 * log_size + eq_table_entries(log_size, log_low))

    @staticmethod
    def load(f: Any, shape: Shape, memory: Value, sizes: SumcheckSizes, number: Value) -> list[Any]:
        """Load the scale of each term of sumcheck `number`; None for a term without one."""
        count = shape.scale_count
        if not count:
            return [None] * len(shape.polynomial.terms)
        first = TermScales.offset(shape.has_point, sizes.batch, sizes.log_size, sizes.log_low)
        start = number * count + first
        scales = [f.bounded(f.load(memory, start + index)) for index in range(count)]
        return [None if index is None else scales[index] for index in shape.scales]
