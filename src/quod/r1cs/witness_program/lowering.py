"""Lower steps of a block to `quod.r1cs.witness_program.instructions`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from quod.r1cs.signal import ONE, Signal
from quod.r1cs.traced import Block
from quod.r1cs.witness_program.allocation import allocated
from quod.r1cs.witness_program.instructions import (
    ONE_REGISTER,
    ZERO_REGISTER,
    Call,
    Op,
    Program,
    Stretch,
)
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step, wires_of

Monomial = tuple[tuple[int, int], ...]
"""A product of divisors: pairs of register and exponent, in ascending order."""

Fraction = tuple[int, Monomial]
"""The register of the numerator, and the denominator as a product of divisors."""

Term = tuple[int, int, Monomial]
"""A coefficient, and a fraction."""

_EMPTY: Monomial = ()

# The instructions' results are the registers from here on, in their order.
_FIRST_REGISTER = 2


# Instructions of a stretch, at most: results are stored after each stretch, so that registers are
# few and stay in cache.
_MAX_STRETCH = 1 << 14


def lowered(block: Block, steps: Sequence[Step], *, exact: bool = False) -> Program:
    """Lower steps of a block to a program, which loads all other wires from the witness.

    exact: a quotient by 0 is 0, as in `quod.r1cs.witness_program.replay`. Without it, a quotient
        by 0 marks the witness as dividing by 0, which saves instructions.
    """
    lowering = _Lowering(block, exact)
    for step in steps:
        lowering.lower(step)
    return lowering.finished(steps)


class _Registers(dict[int, int]):
    """The register of each wire's numerator; a wire without one is loaded from the witness."""

    def __init__(self, lowering: _Lowering) -> None:
        super().__init__({ONE: ONE_REGISTER})
        self._lowering = lowering

    def __missing__(self, wire: int) -> int:
        lowering = self._lowering
        register = self[wire] = lowering.emit(Op.INPUT, lowering.block.column(wire), 0)
        return register


class _Lowering:
    """The state of lowering: the instructions so far, and the fraction of each wire."""

    def __init__(self, block: Block, exact: bool) -> None:
        self.block, self.system, self.prime = block, block.system, block.system.prime
        self.exact = exact
        self.code: list[int] = []
        self.terms: list[int] = []
        self.coefficients: dict[int, int] = {}
        self.registers = _FIRST_REGISTER
        self.shared_registers: dict[tuple[int, ...], int] = {}
        # The integers of signals, by the signals' ids.
        self.integers: dict[int, int] = {}
        # Each denominator that is not 1 is in `denominators`.
        self.numerators = _Registers(self)
        self.denominators: dict[int, Monomial] = {}
        # Divisors to invert; inverses of divisors; wires of InverseOrZero with their operands.
        self.divisors: dict[int, None] = {}
        self.inverses: dict[int, int] = {}
        self.or_zero: dict[int, int] = {}
        # The calls of hints, by the number of instructions before each.
        self.calls: list[tuple[int, Call]] = []

    # --- instructions

    def emit(self, op: Op, a: int, b: int) -> int:
        """Append an instruction and return its result register."""
        d = self.registers
        self.registers += 1
        self.code += (op, d, a, b)
        return d

    def shared(self, op: Op, a: int, b: int) -> int:
        """Return an instruction's result register; an equal instruction is appended only once."""
        if a > b and op in (Op.ADD, Op.MULTIPLY):
            a, b = b, a
        key = (op, a, b)
        if (register := self.shared_registers.get(key)) is None:
            register = self.shared_registers[key] = self.emit(op, a, b)
        return register

    def product(self, a: int, b: int) -> int:
        """Return the register of a * b."""
        if a == ONE_REGISTER:
            return b
        if b == ONE_REGISTER:
            return a
        return ZERO_REGISTER if ZERO_REGISTER in (a, b) else self.shared(Op.MULTIPLY, a, b)

    def linear(self, terms: Sequence[tuple[int, int]]) -> int:
        """Return the register of a sum of terms (coefficient, register)."""
        prime = self.prime
        if len(terms) == 1:
            ((coefficient, register),) = terms
            if coefficient == 1:
                return register
            if coefficient == 2:
                return self.shared(Op.ADD, register, register)
        plus = [register for coefficient, register in terms if coefficient == 1]
        minus = [register for coefficient, register in terms if coefficient == prime - 1]
        weighted = [term for term in terms if term[0] != 1 and term[0] != prime - 1]
        total: int | None = None
        if weighted:
            total = self._sum_of(weighted)
        for register in plus:
            total = register if total is None else self.shared(Op.ADD, total, register)
        for register in minus:
            total = self.shared(Op.SUBTRACT, ZERO_REGISTER if total is None else total, register)
        return ZERO_REGISTER if total is None else total

    def _sum_of(self, terms: Sequence[tuple[int, int]]) -> int:
        """Return the register of a sum that one LINEAR instruction computes."""
        key = tuple([value for term in terms for value in term])
        if (sum_register := self.shared_registers.get(key)) is None:
            start = len(self.terms) // 2
            for coefficient, register in terms:
                index = self.coefficients.setdefault(coefficient, len(self.coefficients))
                self.terms += (index, register)
            sum_register = self.shared_registers[key] = self.emit(Op.LINEAR, start, len(terms))
        return sum_register

    def power_product(self, monomial: Monomial) -> int:
        """Return the register of a product of powers of divisors."""
        result = ONE_REGISTER
        for register, exponent in monomial:
            power, remaining = register, exponent
            while remaining:
                if remaining & 1:
                    result = self.product(result, power)
                remaining >>= 1
                if remaining:
                    power = self.product(power, power)
        return result

    # --- fractions

    def combined(self, terms: Iterable[Term]) -> Fraction:
        """Return the sum of fractions, each times a coefficient, over a common denominator."""
        groups: dict[Monomial, dict[int, int]] = {}
        for coefficient, register, denominator in terms:
            if register != ZERO_REGISTER:
                group = groups.setdefault(denominator, {})
                group[register] = (group.get(register, 0) + coefficient) % self.prime
        if not groups:
            return ZERO_REGISTER, _EMPTY
        common = _EMPTY
        for denominator in groups:
            common = _common(common, denominator)
        numerators = []
        for denominator, group in groups.items():
            numerator = self.linear(
                [(value, register) for register, value in group.items() if value]
            )
            if numerator != ZERO_REGISTER:
                numerators.append(
                    self.product(numerator, self.power_product(_quotient(common, denominator)))
                )
        return self.linear([(1, register) for register in numerators]), common

    def of(self, wires: Sequence[int], coefficients: Sequence[int], factor: int = 1) -> list[Term]:
        """Return the terms of a sum of wires, all times a factor."""
        prime, numerators, denominators = self.prime, self.numerators, self.denominators
        if self.or_zero:
            for wire in wires:
                if wire in self.or_zero:
                    self.invert()
                    break
        return [
            (k * factor % prime, numerators[wire], denominators.get(wire, _EMPTY))
            for wire, k in zip(wires, coefficients, strict=True)
        ]

    def lower(self, step: Step) -> None:
        """Append the instructions that compute a step's wires."""
        if type(step) is Solve:
            numerator, denominator = self._solved(step)
            self._set(step.wire, numerator, denominator)
        elif type(step) is Bit:
            register = self._integer_of(step.signal)
            self._set(step.wire, self.emit(Op.BIT, register, step.position), _EMPTY)
        elif type(step) is InverseOrZero:
            self.or_zero[step.wire] = self._register_of(step.signal)
        elif type(step) is Hint:
            arguments = tuple([self._integer_of(argument) for argument in step.arguments])
            # The results are loaded from the witness on their first use.
            results = tuple([self.block.column(wire) for wire in step.wires])
            self.calls.append((len(self.code) // 4, Call(step, arguments, results)))

    def _set(self, wire: int, numerator: int, denominator: Monomial) -> None:
        """Record the fraction of a wire."""
        self.numerators[wire] = numerator
        if denominator:
            self.denominators[wire] = denominator

    def _solved(self, step: Solve) -> Fraction:
        """Return the fraction of the wire that a row determines; its divisor is recorded."""
        system, prime = self.system, self.prime
        rows = [system.row(side, step.row) for side in range(3)]
        wires, coefficients = rows[step.side]
        index = wires.index(step.wire)
        coefficient = coefficients[index]
        known_terms = (
            wires[:index] + wires[index + 1 :],
            coefficients[:index] + coefficients[index + 1 :],
        )
        if step.side == 2:
            scale = pow(coefficient, -1, prime) if coefficient != 1 else 1
            return self.combined(
                [*self._product(rows[0], rows[1], scale), *self.of(*known_terms, -scale)]
            )
        other = rows[1 - step.side]
        terms = [*self.of(*rows[2]), *self._product(known_terms, other, -1)]
        constant = _constant(*other)
        if constant is not None:
            scale = pow(coefficient * constant, -1, prime) if coefficient * constant % prime else 0
            return self.combined([(k * scale % prime, *fraction) for k, *fraction in terms])  # type: ignore[misc]
        scale = pow(coefficient, -1, prime) if coefficient != 1 else 1
        numerator, denominator = self.combined([(k * scale % prime, *pair) for k, *pair in terms])  # type: ignore[misc]
        divisor, divisor_denominator = self.combined(self.of(*other))
        common_denominator = _common(denominator, divisor_denominator)
        numerator = self.product(
            numerator, self.power_product(_quotient(common_denominator, denominator))
        )
        if self.exact:
            numerator = self.shared(Op.UNLESS_ZERO, divisor, numerator)
            divisor = self.shared(Op.GUARD, divisor, 0)
        denominator = _times(_quotient(common_denominator, divisor_denominator), ((divisor, 1),))
        if divisor not in self.inverses:
            self.divisors[divisor] = None
        return numerator, denominator

    def _product(
        self,
        left: tuple[Sequence[int], Sequence[int]],
        right: tuple[Sequence[int], Sequence[int]],
        factor: int,
    ) -> list[Term]:
        """Return the product of two sums of wires, times a factor, as terms."""
        for constant_side, varying_side in ((left, right), (right, left)):
            if (constant := _constant(*constant_side)) is not None:
                scale = constant * factor % self.prime
                return self.of(*varying_side, scale) if scale else []
        a, left_denominator = self.combined(self.of(*left))
        b, right_denominator = self.combined(self.of(*right))
        return [
            (factor % self.prime, self.product(a, b), _times(left_denominator, right_denominator))
        ]

    def _integer_of(self, signal: Signal) -> int:
        """Return a register with a signal's value as an integer; bits of a signal share it."""
        register = self.integers.get(id(signal))
        if register is None:
            register = self.shared(Op.INTEGER, self._register_of(signal), 0)
            self.integers[id(signal)] = register
        return register

    def _register_of(self, signal: Signal) -> int:
        """Return a register with a signal's value, after inverting divisors if it is a fraction."""
        terms = self.of(signal.wires, signal.coefficients)
        if any(denominator for _, _, denominator in terms):
            self.invert()
            terms = self.of(signal.wires, signal.coefficients)
        return self.combined(terms)[0]

    # --- inversions

    def invert(self) -> None:
        """Invert all divisors in one batch; afterwards no wire is a fraction."""
        guards = [(self.emit(Op.GUARD, divisor, 1), divisor) for divisor in self.divisors]
        open_wires = list(self.or_zero.items())
        guards += [(self.emit(Op.GUARD, register, 0), register) for _, register in open_wires]
        if guards:
            # Montgomery's trick: invert the product of all guards, then multiply out each factor.
            prefixes = [guards[0][0]]
            for guard, _ in guards[1:]:
                prefixes.append(self.emit(Op.MULTIPLY, prefixes[-1], guard))
            inverse = self.emit(Op.INVERT, prefixes[-1], 0)
            reciprocals = []
            for index in reversed(range(1, len(guards))):
                reciprocals.append(self.emit(Op.MULTIPLY, inverse, prefixes[index - 1]))
                inverse = self.emit(Op.MULTIPLY, inverse, guards[index][0])
            reciprocals.append(inverse)
            reciprocals.reverse()
            for divisor, reciprocal in zip(self.divisors, reciprocals, strict=False):
                self.inverses[divisor] = reciprocal
            for (wire, register), reciprocal_or_zero in zip(
                open_wires, reciprocals[len(self.divisors) :], strict=True
            ):
                self._set(wire, self.emit(Op.UNLESS_ZERO, register, reciprocal_or_zero), _EMPTY)
        self.divisors.clear()
        self.or_zero.clear()
        for wire, denominator in self.denominators.items():
            inverted = tuple(
                (self.inverses[register], exponent) for register, exponent in denominator
            )
            self.numerators[wire] = self.product(
                self.numerators[wire], self.power_product(inverted)
            )
        self.denominators.clear()

    def finished(self, steps: Sequence[Step]) -> Program:
        """Return the program, after inverting the remaining divisors."""
        self.invert()
        outputs = [
            (self.numerators[wire], self.block.column(wire))
            for step in steps
            if type(step) is not Hint
            for wire in wires_of(step)
        ]
        # A register is valid from its instruction on, so this is the order in which they can be
        # stored.
        outputs.sort()
        ends = self._ends()
        output_ends = [bisect_left(outputs, (_FIRST_REGISTER + end,)) for end, _ in ends]
        output_ends[-1] = len(outputs)
        read_at: dict[int, list[int]] = {end: [] for end, _ in ends}
        for (end, call), start, stop in zip(ends, [0, *output_ends], output_ends, strict=False):
            read_at[end] += [register for register, _ in outputs[start:stop]]
            read_at[end] += call.arguments if call is not None else ()
        code, terms, new_register, registers = allocated(
            self.code, self.terms, read_at, self.registers
        )

        def renamed(call: Call) -> Call:
            arguments = tuple([new_register[register] for register in call.arguments])
            return Call(call.hint, arguments, call.results)

        return Program(
            np.array(code, np.uint32).reshape(-1, 4), np.array(terms, np.uint32).reshape(-1, 2),
            list(self.coefficients), registers,
            np.array(
                [(new_register[register], column) for register, column in outputs], np.uint32
            ).reshape(-1, 2),
            tuple(
                Stretch(end, stop, renamed(call) if call is not None else None)
                for (end, call), stop in zip(ends, output_ends, strict=True)
            ),
        )  # fmt: skip

    def _ends(self) -> list[tuple[int, Call | None]]:
        """Return the exclusive end of each stretch, and the hint to call there."""
        ends: list[tuple[int, Call | None]] = []
        start = 0
        for end, call in [*self.calls, (len(self.code) // 4, None)]:
            ends += [(cut, None) for cut in range(start + _MAX_STRETCH, end, _MAX_STRETCH)]
            ends.append((end, call))
            start = end
        return ends


def _constant(wires: Sequence[int], coefficients: Sequence[int]) -> int | None:
    """Return the value of a constant sum, or None if the sum has wires."""
    if not wires:
        return 0
    return coefficients[0] if len(wires) == 1 and wires[0] == ONE else None


def _times(left: Monomial, right: Monomial) -> Monomial:
    """Return the product of two products of divisors."""
    if not left or not right:
        return left or right
    exponents = dict(left)
    for register, exponent in right:
        exponents[register] = exponents.get(register, 0) + exponent
    return tuple(sorted(exponents.items()))


def _common(left: Monomial, right: Monomial) -> Monomial:
    """Return the least common multiple of two products of divisors."""
    if left == right or not left or not right:
        return left or right
    exponents = dict(left)
    for register, exponent in right:
        exponents[register] = max(exponents.get(register, 0), exponent)
    return tuple(sorted(exponents.items()))


def _quotient(dividend: Monomial, divisor: Monomial) -> Monomial:
    """Return a product of divisors divided by one of its factors."""
    if not divisor:
        return dividend
    exponents = dict(dividend)
    for register, exponent in divisor:
        exponents[register] -= exponent
    return tuple((register, exponent) for register, exponent in exponents.items() if exponent)
