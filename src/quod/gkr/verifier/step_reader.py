"""A proof read step by step, in plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.gkr.protocol import Challenges, Delay, ProtocolSteps, Rounds, StepsInOrder, Values
from quod.sumcheck.verifier import read_rounds
from quod.transcript.messages import ProofReader


class StepReader:
    """A reader of a proof's messages, which draws the challenges, in the order of the protocol."""

    def __init__(
        self, steps: ProtocolSteps, field: FieldSpec, reader: ProofReader, *, delay_messages: int
    ) -> None:
        """`delay_messages` is the number of empty messages of a delay."""
        self._order, self._delay_messages = StepsInOrder(steps), delay_messages
        self._field, self._reader = field, reader

    def delay(self, step: Delay) -> None:
        """Apply the sequential hash delay."""
        self._order.take(step)
        for _ in range(self._delay_messages):
            self._reader.transcript.absorb(step.label, b"")

    def challenges(self, step: Challenges) -> list[PlainElement]:
        """Draw challenges."""
        self._order.take(step)
        coefficients = self._reader.transcript.challenges(self._field, step.count)
        return PlainElement.from_coefficients(self._field, coefficients)

    def rounds(
        self, step: Rounds, claim: PlainElement, point: Sequence[PlainElement] | None = None
    ) -> tuple[PlainElement, list[PlainElement]]:
        """Read rounds; return the claim after them and the point of their challenges.

        `point` is the point of eq if eq weights the polynomial.
        """
        self._order.take(step)
        last_claim, round_challenges = read_rounds(
            self._reader, self._field, degree=step.degree, variables=step.variables,
            claim=claim, point=None if point is None else coefficients_of(point),
        )  # fmt: skip
        return last_claim, PlainElement.from_coefficients(self._field, round_challenges)

    def values(self, step: Values) -> list[PlainElement]:
        """Read values."""
        self._order.take(step)
        read_elements = self._reader.elements_by_runs if step.by_runs else self._reader.elements
        return PlainElement.from_coefficients(
            self._field, read_elements(step.label, self._field, step.count)
        )

    def end(self) -> None:
        """Raise AssertionError if the proof has further steps."""
        self._order.end()
