"""The GKR of gnark on plain integers, under its test hash, which answers every message with -1.

A circuit is a list of wires, each the values of all instances, made by one gate of earlier wires. A
claim about a wire at a point becomes claims about its gate's inputs: of a gate of degree 1 at the
same point, where all claims are about one point; else by a sumcheck over the instances, of the gate
weighted by eq of the point, or of the points, their weights the powers of a challenge. A round is
its polynomial at 1, 2 ... up to its degree, the single eq left out; variable 0 is bound first.
Neighbouring gates of degree 1 with claims about the same point are one level, which sends values of
their inputs once.

It shares with Quod the verifier's rounds (`quod.sumcheck.verifier`), and the bytes of messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quod.errors import VerificationError
from quod.field import NAMED, FieldSpec
from quod.field.element_bytes import encode
from quod.field.plain_element import PlainElement
from quod.field.plain_extension import product
from quod.sumcheck.verifier import read_rounds
from quod.transcript import ProofReader, Transcript
from tests.reference import sumcheck as reference
from tests.reference.sumcheck import Plain, Terms, add, embed, multilinear, negate

FIELD = NAMED["bn254.fr"]
"""The vectors are small integers, for any field."""

GATES: dict[str | None, Terms] = {
    None: [(1, (0,))],
    "identity": [(1, (0,))],
    "select-input-3": [(1, (2,))],
    "mul2": [(1, (0, 1))],
    "mimc": [(math.comb(7, k), (*[0] * k, *[1] * (7 - k))) for k in range(8)],
}
"""The polynomial of each gate in its inputs; that of an input wire is the wire itself."""

MINUS_ONE = embed(FIELD, -1)

Claims = list[tuple[int, Plain]]
"""Claims about one wire: the number of a point, and the value there."""


class Constant(Transcript):
    """Every challenge is -1."""

    def challenge(self, field: FieldSpec) -> Plain:
        return embed(field, -1)


@dataclass
class Proof:
    """Messages of one level: rounds, and the values of its gates' inputs."""

    rounds: list[list[Plain]]
    values: list[Plain]


def elements(integers: Sequence[int]) -> list[Plain]:
    return [embed(FIELD, integer) for integer in integers]


def value_at(coefficients: Sequence[Plain], x: Plain) -> Plain:
    """The value of a polynomial at x."""
    total = embed(FIELD, 0)
    for coefficient in reversed(coefficients):
        total = add(FIELD, product(FIELD, total, x), coefficient)
    return total


def partial_sums(
    terms: Terms, tables: list[list[Plain]], point: list[Plain] | None
) -> tuple[Plain, list[list[Plain]], list[Plain]]:
    """The claim, the rounds as gnark sends them, and the values of the tables where they end."""
    messages, _, values = reference.prove(FIELD, terms, tables, point, lambda _: MINUS_ONE)
    claim = first_claim = reference.whole_sum(FIELD, terms, tables, point)
    sent = []
    for number, message in enumerate(messages):
        weight = None if point is None else point[number]
        coefficients = [_constant(claim, add(FIELD, *message), weight), *message]
        sent.append(
            [value_at(coefficients, x) for x in elements(range(1, len(message) + 1))]
        )  # fmt: skip
        claim = value_at(coefficients, MINUS_ONE)
    return first_claim, sent, values


def _constant(claim: Plain, others: Plain, weight: Plain | None) -> Plain:
    """The coefficient of 1: the claim is t(0) + t(1), or (1 - w)*t(0) + w*t(1)."""
    if weight is not None:
        return add(FIELD, claim, negate(FIELD, product(FIELD, weight, others)))
    half = embed(FIELD, pow(2, -1, FIELD.modulus.value))
    return product(FIELD, half, add(FIELD, claim, negate(FIELD, others)))


class Circuit:
    """A circuit of a file, and of each wire the values of all instances."""

    def __init__(self, wires: list[dict[str, Any]], inputs: list[list[int]]) -> None:
        self.gates = [GATES[wire["gate"]] for wire in wires]
        self.is_input = [wire["gate"] is None for wire in wires]
        # An input stands once, however often a gate takes it.
        self.inputs: list[list[int]] = [
            [number] if wire["gate"] is None else list(dict.fromkeys(wire["inputs"]))
            for number, wire in enumerate(wires)
        ]
        self.values: list[list[Plain]] = []
        input_values = iter(inputs)
        for number, wire in enumerate(wires):
            if wire["gate"] is None:
                self.values.append(elements(next(input_values)))
                continue
            unique = self.inputs[number]
            self.gates[number] = [
                (coefficient, tuple(unique.index(wire["inputs"][at]) for at in places))
                for coefficient, places in self.gates[number]
            ]
            columns = zip(*(self.values[x] for x in unique), strict=True)
            self.values.append(
                [reference.evaluate(FIELD, self.gates[number], list(column)) for column in columns]
            )
        used = {
            x for unique, is_input in zip(self.inputs, self.is_input, strict=True) if not is_input
            for x in unique
        }  # fmt: skip
        self.outputs = [number for number in range(len(wires)) if number not in used]
        self.variables = len(inputs[0]).bit_length() - 1

    def _degree(self, number: int) -> int:
        return max(len(places) for _, places in self.gates[number])

    def _level(self, number: int, claims: dict[int, Claims]) -> tuple[list[int], bool]:
        """The wires of the level that ends with a wire, and whether it is a sumcheck."""

        def is_skipped(wire: int) -> bool:
            points = {point for point, _ in claims[wire]}
            return self._degree(wire) == 1 and points == {claims[number][0][0]}

        level = [number]
        if not is_skipped(number):
            return level, True
        while (
            not self.is_input[number] and level[-1] > 0 and not self.is_input[level[-1] - 1]
            and is_skipped(level[-1] - 1)
            and all(level[-1] - 1 not in self.inputs[wire] for wire in level)
        ):  # fmt: skip
            level.append(level[-1] - 1)
        return level, False

    def _weights(self, claims: Claims) -> list[Plain]:
        """Several claims as one: eq of their points, times the powers of a challenge."""
        point = [MINUS_ONE] * self.variables
        corners = [
            [place >> (self.variables - 1 - at) & 1 for at in range(self.variables)]
            for place in range(1 << self.variables)
        ]
        weights = [embed(FIELD, 0)] * len(corners)
        factor = embed(FIELD, 1)
        for _ in claims:
            for place, corner in enumerate(corners):
                share = product(FIELD, factor, reference.equality(FIELD, point, corner))
                weights[place] = add(FIELD, weights[place], share)
            factor = product(FIELD, factor, MINUS_ONE)
        return weights

    def prove(self) -> list[Proof]:
        """Prove each level."""
        point = [MINUS_ONE] * self.variables
        outputs = [multilinear(FIELD, self.values[number], point) for number in self.outputs]
        claims, number = self._claims(outputs), len(self.gates) - 1
        proofs = []
        while number >= 0:
            level, is_sumcheck = self._level(number, claims)
            unique, level_claims, at = self._inputs_of(level), claims[number], claims[number][0][0]
            tables = [self.values[x] for x in unique]
            rounds: list[list[Plain]] = []
            values = [multilinear(FIELD, table, point) for table in tables]
            if is_sumcheck:
                at = number
                if len(level_claims) == 1:
                    _, rounds, values = partial_sums(self.gates[number], tables, point)
                else:
                    terms = [(c, (*places, len(tables))) for c, places in self.gates[number]]
                    tables = [*tables, self._weights(level_claims)]
                    _, rounds, values = partial_sums(terms, tables, None)
                    values = values[:-1]
            proofs.append(Proof(rounds, values))
            for x, value in zip(unique, values, strict=True):
                claims[x].append((at, value))
            number = level[-1] - 1
        return proofs[::-1]

    def _claims(self, outputs: list[Plain]) -> dict[int, Claims]:
        """Those of each wire, at first the outputs' at the first point."""
        claims: dict[int, Claims] = {number: [] for number in range(len(self.gates))}
        for number, value in zip(self.outputs, outputs, strict=True):
            claims[number].append((-1, value))
        return claims

    def _inputs_of(self, level: list[int]) -> list[int]:
        return list(dict.fromkeys(x for number in level for x in self.inputs[number]))

    def verify(self, outputs: list[list[int]], proofs: list[Proof]) -> None:
        """VerificationError for a proof that does not show that the circuit has these outputs."""
        point, unread = [MINUS_ONE] * self.variables, list(proofs)
        claims = self._claims([multilinear(FIELD, elements(row), point) for row in outputs])
        number = len(self.gates) - 1
        while number >= 0:
            level, is_sumcheck = self._level(number, claims)
            proof, at = unread.pop(), claims[number][0][0]
            input_values = dict(zip(self._inputs_of(level), proof.values, strict=True))
            for wire in level:
                values = [input_values[x] for x in self.inputs[wire]]
                gate_value = reference.evaluate(FIELD, self.gates[wire], values)
                claimed_values = [value for _, value in claims[wire]]
                if is_sumcheck:
                    at = number
                    claimed_values = [self._after_rounds(wire, claims[wire], proof.rounds)]
                    if len(claims[wire]) > 1:
                        weight = multilinear(FIELD, self._weights(claims[wire]), point)
                        gate_value = product(FIELD, gate_value, weight)
                if any(value != gate_value for value in claimed_values):
                    raise VerificationError(f"wire {wire} is not what the proof claims")
            for x, value in input_values.items():
                if not self.is_input[number]:
                    claims[x].append((at, value))
                elif value != multilinear(FIELD, self.values[x], point):
                    raise VerificationError(f"input {x} has another value at the point")
            number = level[-1] - 1

    def _after_rounds(self, number: int, claims: Claims, rounds: list[list[Plain]]) -> Plain:
        """The claim that rounds leave, by Quod's verifier."""
        claim, factor = embed(FIELD, 0), embed(FIELD, 1)
        for _, value in claims:
            claim = add(FIELD, claim, product(FIELD, factor, value))
            factor = product(FIELD, factor, MINUS_ONE)
        point = [MINUS_ONE] * self.variables if len(claims) == 1 else None
        message, round_claim = [], claim
        for place, sent in enumerate(rounds):
            coefficients = _interpolated(round_claim, sent, None if point is None else point[place])
            round_claim = value_at(coefficients, MINUS_ONE)
            message += coefficients[1:]
        degree = self._degree(number) + (point is None)
        reader = ProofReader(encode(FIELD, message), Constant())
        final_claim, _ = read_rounds(
            reader, FIELD, degree=degree, variables=self.variables,
            claim=PlainElement(FIELD, claim), point=point,
        )  # fmt: skip
        reader.end()
        return final_claim.coefficients


def _interpolated(claim: Plain, sent: list[Plain], weight: Plain | None) -> list[Plain]:
    """The coefficients of a round, by Lagrange, of its values at 1, 2 ... and the claim."""
    p = FIELD.modulus.value
    w = 1 if weight is None else weight[0]
    # At 0 the claim is (1 - w)*t(0) + w*t(1), or t(0) + t(1).
    at_zero = claim[0] - w * sent[0][0]
    values = [at_zero * pow(1 if weight is None else 1 - w, -1, p), *(value[0] for value in sent)]
    total = [0] * len(values)
    for place, value in enumerate(values):
        basis, scale = [1], 1
        for other in range(len(values)):
            if other != place:
                basis = [a - other * b for a, b in zip([0, *basis], [*basis, 0], strict=True)]
                scale = scale * (place - other) % p
        for at, c in enumerate(basis):
            total[at] += value * c * pow(scale, -1, p)
    return elements(total)
