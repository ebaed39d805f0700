"""The inputs of checking kernels: elements of a proof, its challenges, and partial sums."""

from __future__ import annotations

from typing import Any

from quod.gkr.checker.structs import PartialSums, PerProof
from quod.kernel import Builder, u32
from quod.kernel.ir.value import Value


class SumReader:
    """Adds partial sums inside a kernel, and checks that the current run wrote all their inputs."""

    def __init__(self, k: Builder, f: Any, sums: PartialSums, proof: Value, ticket: Value) -> None:
        self._k, self._f, self._sums, self._ticket = k, f, sums, ticket
        self._start = proof * sums.stride
        # A kernel value that is always true.
        self.fresh = ticket == ticket
        """True if all tags read so far equal the run's ticket."""

    def sum(self, first: Value, stop: Value) -> Any:
        """Return the sum of the partial sums `first` to `stop` - 1, and check their tags."""
        k, f, sums = self._k, self._f, self._sums
        with k.range(first, stop, carry=(f.bounded(f.zero()), k.constant(0, u32))) as loop:
            total, tag_differences = loop.carried
            index = self._start + loop.index
            (tag,) = k.load(sums.words, sums.tags + index)
            loop.next(
                (
                    f.bounded(total + f.load(sums.words, index)),
                    tag_differences | (tag ^ self._ticket),
                )
            )
        self.fresh = self.fresh & (loop.results[1] == 0)
        return loop.results[0]

    def require_tiles(
        self, tile_tickets: PerProof, proof: Value, chunk: Value, count: Value
    ) -> None:
        """Check the tickets of the tiles of eq tables, chunk `chunk` of `count`.

        Each check of a proof tests the tickets of one chunk; a proof passes if all its checks do.
        """
        k, first_tile, tiles = self._k, proof * tile_tickets.stride, tile_tickets.stride
        chunk_tiles = (tiles + count - 1) // count
        first = k.minimum(chunk * chunk_tiles, tiles)
        with k.range(
            first, k.minimum(first + chunk_tiles, tiles), carry=k.constant(0, u32)
        ) as loop:
            (tag,) = k.load(tile_tickets.entries, first_tile + loop.index)
            loop.next(loop.carried | (tag ^ self._ticket))
        self.fresh = self.fresh & (loop.results == 0)


class ProofBuffer:
    """A proof and its challenges inside a kernel."""

    def __init__(
        self, k: Builder, f: Any, sent: PerProof, challenges: PerProof, proof: Value
    ) -> None:
        self._k, self._f, self._sent, self._challenges = k, f, sent, challenges
        self._first, self._first_step = proof * sent.stride, proof * challenges.stride
        self._half = (f.modulus.value + 1) // 2

    def element(self, index: Value) -> Any:
        """Load an element of the proof."""
        f = self._f
        return f.bounded(of_integer(f, f.load(self._sent.entries, self._first + index)))

    def challenge(self, step: Value) -> Any:
        """Load the challenge after a message."""
        return self._f.bounded(self._f.load(self._challenges.entries, self._first_step + step))

    def rounds(self, claim: Any, sumcheck: tuple[Value, ...], weights: tuple[Value, ...]) -> Any:
        """Compute the claim after the rounds of a sumcheck.

        A round's message has the coefficients of t from degree 1 up. The claim, which is
        (1 - w) * t(0) + w * t(1) for an eq coordinate w, determines the constant one.
        sumcheck: the number of rounds, their degree, the element of the first coefficient, and the
            first challenge.
        weights: the number of variables with the eq coordinate 1/2; whether eq weights the
            polynomial, with challenges as the other coordinates; and the first of these challenges.
            Without eq, the claim of a round is t(0) + t(1).
        """
        k, f, half = self._k, self._f, self._half
        rounds, degree, first, first_challenge = sumcheck
        halves, has_eq, first_coordinate = weights
        is_weighted = has_eq != 0
        # eq at 1/2 is 1/2 for both bits, a factor of the whole sum.
        with k.range(0, halves, carry=claim) as halving:
            halving.next(f.bounded(halving.carried * half))
        one_half = f.bounded(f.one() * half)
        with k.range(0, rounds, carry=halving.results) as loop:
            round_index, coefficients_start = loop.index, first + loop.index * degree
            x = self.challenge(first_challenge + round_index)
            leading = self.element(coefficients_start + degree - 1)
            with k.range(1, degree, carry=(leading, leading)) as inner:
                horner_sum, higher_sum = inner.carried
                coefficient = self.element(coefficients_start + degree - 1 - inner.index)
                inner.next(
                    (f.bounded(horner_sum * x + coefficient), f.bounded(higher_sum + coefficient))
                )
            horner_sum, higher_sum = inner.results
            uses_challenge = is_weighted & (round_index >= halves)
            coordinate = self.challenge(
                k.select(uses_challenge, first_coordinate + round_index - halves, first_challenge)
            )
            weight = f.select(uses_challenge, coordinate, one_half)
            scaled_claim = f.select(is_weighted, loop.carried, f.bounded(loop.carried * half))
            constant = f.bounded(scaled_claim - weight * higher_sum)
            loop.next(f.bounded(horner_sum * x + constant))
        return loop.results


def of_integer(f: Any, element: Any) -> Any:
    """Convert an integer that was loaded as if in Montgomery form to the element it denotes."""
    radix = f.modulus.montgomery_radix
    return element if radix == 1 else element * (radix % f.modulus.value)
