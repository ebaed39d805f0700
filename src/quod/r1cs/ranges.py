"""Ranges of signals that constraints show, so that gadgets can tell bits from anything else.

A range says that a signal is an integer from 0 to `most`. It is recorded where constraints show it,
and follows for sums of wires whose ranges are known. Nothing here adds a constraint.
"""

from __future__ import annotations

from quod.r1cs.signal import ONE, Signal, merged_terms


class Ranges:
    """What the constraints of one system show about its signals so far."""

    def __init__(self) -> None:
        self._wires: dict[int, int] = {ONE: 1}
        self._sums: dict[frozenset[tuple[int, int]], int] = {}

    def record(self, signal: Signal, most: int) -> None:
        """Record that a signal is at most a number."""
        if signal.wires and len(signal.wires) == 1 and signal.coefficients[0] == 1:
            (wire,) = signal.wires
            self._wires[wire] = min(most, self._wires.get(wire, most))
        elif signal.constant is None:
            terms = _terms(signal)
            self._sums[terms] = min(most, self._sums.get(terms, most))

    def most(self, signal: Signal) -> int | None:
        """The greatest value that a signal can have as far as is shown; None if nothing is."""
        if len(signal.wires) == 1 and signal.coefficients[0] == 1:
            return self._wires.get(signal.wires[0])
        if (number := signal.constant) is not None:
            return number
        by_wires = self._by_wires(signal)
        if not self._sums:
            return by_wires
        recorded = self._sums.get(_terms(signal))
        known = [each for each in (by_wires, recorded) if each is not None]
        return min(known, default=None)

    def _by_wires(self, signal: Signal) -> int | None:
        """The bound that follows from the ranges of the wires, if the sum cannot wrap."""
        if not all(wire in self._wires for wire in signal.wires):
            return None
        prime = signal.system.prime
        low = high = 0
        for wire, coefficient in _terms(signal):
            # Coefficients above half the prime are negative numbers.
            signed = coefficient - prime if coefficient > prime // 2 else coefficient
            if wire == ONE:
                low, high = low + signed, high + signed
            elif signed < 0:
                low += signed * self._wires[wire]
            else:
                high += signed * self._wires[wire]
        return high if low >= 0 and high < prime else None


def _terms(signal: Signal) -> frozenset[tuple[int, int]]:
    """A signal by its wires and coefficients, however it was added up."""
    wires, coefficients = merged_terms(signal.wires, signal.coefficients, signal.system.prime)
    prime = signal.system.prime
    return frozenset(
        (wire, k % prime) for wire, k in zip(wires, coefficients, strict=True) if k % prime
    )
