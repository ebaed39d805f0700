"""Lower the steps of a circuit to `quod.r1cs.witness_program.instructions`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from quod.r1cs.signal import ONE, Signal
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.allocation import allocated
from quod.r1cs.witness_program.instructions import ONE_REGISTER, ZERO, Call, Op, Program
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step

Monomial = tuple[tuple[int, int], ...]
"""A product of divisors: pairs of register and exponent, in ascending order."""

Fraction = tuple[int, Monomial]
"""The register of the numerator, and the denominator as a product of divisors."""

Term = tuple[int, int, Monomial]
"""A coefficient, and a fraction."""

_NONE: Monomial = ()


def lowered(system: ConstraintSystem) -> Program:
    """Lower all steps of a system to a program."""
    lowering = _Lowering(system)
    for step in system.steps:
        lowering.lower(step)
    return lowering.finished()


class _Lowering:
    """The state of lowering: the instructions so far, and the fraction of each wire."""

    def __init__(self, system: ConstraintSystem) -> None:
        self.system, self.prime = system, system.prime
        self.code: list[int] = []
        self.terms: list[int] = []
        self.coefficients: dict[int, int] = {}
        self.registers = 2
        self.shared_registers: dict[tuple[int, ...], int] = {}
        # The register of what is above for each wire, as `quod.r1cs.witness_program.replay` numbers
        # them, and what is below for those where it is not 1.
        inner, public = len(system.wire_paths), len(system.public_names)
        self.above = [ONE_REGISTER] + [ZERO] * (inner + public)
        self.below: dict[int, Monomial] = {}
        # Divisors without an inverse yet, those that have one, and inverses that are 0 for 0.
        self.divisors: dict[int, None] = {}
        self.inverses: dict[int, int] = {}
        self.or_zero: dict[int, int] = {}
        self.calls: list[Call] = []
        self.stretches: list[int] = []
        self._inputs()

    def _inputs(self) -> None:
        self.element_wires: list[int] = []
        self.bit_wires: list[int] = []
        for declaration in self.system.inputs.values():
            op, wires = (
                (Op.INPUT_BIT, self.bit_wires)
                if declaration.bits
                else (Op.INPUT, self.element_wires)
            )
            for wire in declaration.wires:
                self.above[wire] = self.emit(op, len(wires), 0)
                wires.append(wire)
        self.elements = len(self.element_wires)

    # --- instructions

    def emit(self, op: Op, a: int, b: int) -> int:
        """Append an instruction, and return its register."""
        d = self.registers
        self.registers += 1
        self.code += (op, d, a, b)
        return d

    def shared(self, op: Op, a: int, b: int) -> int:
        """Return the register of an instruction; equal instructions are appended once."""
        if a > b and op in (Op.ADD, Op.MULTIPLY):
            a, b = b, a
        key = (op, a, b)
        if (register := self.shared_registers.get(key)) is None:
            register = self.shared_registers[key] = self.emit(op, a, b)
        return register

    def product(self, a: int, b: int) -> int:
        """The register of a * b."""
        if a == ONE_REGISTER:
            return b
        if b == ONE_REGISTER:
            return a
        return ZERO if ZERO in (a, b) else self.shared(Op.MULTIPLY, a, b)

    def linear(self, terms: Sequence[tuple[int, int]]) -> int:
        """The register of a sum of (coefficient, register)."""
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
            total = self.shared(Op.SUBTRACT, ZERO if total is None else total, register)
        return ZERO if total is None else total

    def _sum_of(self, terms: Sequence[tuple[int, int]]) -> int:
        key = tuple([part for term in terms for part in term])
        if (sum_register := self.shared_registers.get(key)) is None:
            start = len(self.terms) // 2
            for coefficient, register in terms:
                place = self.coefficients.setdefault(coefficient, len(self.coefficients))
                self.terms += (place, register)
            sum_register = self.shared_registers[key] = self.emit(Op.LINEAR, start, len(terms))
        return sum_register

    def power_product(self, monomial: Monomial) -> int:
        """The register of a product of divisors."""
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
        """The sum of fractions, each times a coefficient."""
        groups: dict[Monomial, dict[int, int]] = {}
        for coefficient, register, below in terms:
            if register != ZERO:
                group = groups.setdefault(below, {})
                group[register] = (group.get(register, 0) + coefficient) % self.prime
        if not groups:
            return ZERO, _NONE
        common = _NONE
        for below in groups:
            common = _common(common, below)
        numerators = []
        for below, group in groups.items():
            numerator = self.linear(
                [(value, register) for register, value in group.items() if value]
            )
            if numerator != ZERO:
                numerators.append(
                    self.product(numerator, self.power_product(_quotient(common, below)))
                )
        return self.linear([(1, register) for register in numerators]), common

    def of(self, wires: Sequence[int], coefficients: Sequence[int], factor: int = 1) -> list[Term]:
        """The terms of a sum of wires, all times a factor."""
        prime, above, below = self.prime, self.above, self.below
        if self.or_zero:
            for wire in wires:
                if wire in self.or_zero:
                    self.invert()
                    break
        return [
            (k * factor % prime, above[wire], below.get(wire, _NONE))
            for wire, k in zip(wires, coefficients, strict=True)
        ]

    def lower(self, step: Step) -> None:
        """Append the instructions that compute a step's wires."""
        if type(step) is Solve:
            above, below = self._solved(step)
            self._set(step.wire, above, below)
        elif type(step) is Bit:
            register = self.shared(Op.INTEGER, self._register_of(step.signal), 0)
            self._set(step.wire, self.emit(Op.BIT, register, step.position), _NONE)
        elif type(step) is InverseOrZero:
            self.or_zero[step.wire] = self._register_of(step.signal)
        elif type(step) is Hint:
            arguments = tuple(
                self.shared(Op.INTEGER, self._register_of(argument), 0)
                for argument in step.arguments
            )
            self.stretches.append(len(self.code) // 4)
            results = range(self.elements, self.elements + len(step.wires))
            self.elements += len(step.wires)
            self.calls.append(Call(step, arguments, tuple(results)))
            for wire, place in zip(step.wires, results, strict=True):
                self._set(wire, self.emit(Op.INPUT, place, 0), _NONE)

    def _set(self, wire: int, above: int, below: Monomial) -> None:
        self.above[wire] = above
        if below:
            self.below[wire] = below

    def _solved(self, step: Solve) -> Fraction:
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
        above, below = self.combined([(k * scale % prime, *pair) for k, *pair in terms])  # type: ignore[misc]
        divisor, raised = self.combined(self.of(*other))
        shared = _common(below, raised)
        above = self.product(above, self.power_product(_quotient(shared, below)))
        below = _times(_quotient(shared, raised), ((divisor, 1),))
        if divisor not in self.inverses:
            self.divisors[divisor] = None
        return above, below

    def _product(
        self,
        left: tuple[Sequence[int], Sequence[int]],
        right: tuple[Sequence[int], Sequence[int]],
        factor: int,
    ) -> list[Term]:
        """The product of two sums as terms, times a factor."""
        for constant_side, varying_side in ((left, right), (right, left)):
            if (constant := _constant(*constant_side)) is not None:
                scale = constant * factor % self.prime
                return self.of(*varying_side, scale) if scale else []
        a, below = self.combined(self.of(*left))
        b, raised = self.combined(self.of(*right))
        return [(factor % self.prime, self.product(a, b), _times(below, raised))]

    def _register_of(self, signal: Signal) -> int:
        """Return a register with a signal's value, after inverting divisors if it is a fraction."""
        terms = self.of(signal.wires, signal.coefficients)
        if any(below for _, _, below in terms):
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
            prefixes = [guards[0][0]]
            for guard, _ in guards[1:]:
                prefixes.append(self.emit(Op.MULTIPLY, prefixes[-1], guard))
            inverse = self.emit(Op.INVERT, prefixes[-1], 0)
            inverses = []
            for index in reversed(range(1, len(guards))):
                inverses.append(self.emit(Op.MULTIPLY, inverse, prefixes[index - 1]))
                inverse = self.emit(Op.MULTIPLY, inverse, guards[index][0])
            inverses.append(inverse)
            inverses.reverse()
            for divisor, reciprocal in zip(self.divisors, inverses, strict=False):
                self.inverses[divisor] = reciprocal
            for (wire, register), single in zip(
                open_wires, inverses[len(self.divisors) :], strict=True
            ):
                self._set(wire, self.emit(Op.UNLESS_ZERO, register, single), _NONE)
        self.divisors.clear()
        self.or_zero.clear()
        for wire, divided in self.below.items():
            inverted = tuple((self.inverses[register], exponent) for register, exponent in divided)
            self.above[wire] = self.product(self.above[wire], self.power_product(inverted))
        self.below.clear()

    def finished(self) -> Program:
        """Return the program, after inverting the divisors that are left."""
        self.invert()
        self.stretches.append(len(self.code) // 4)
        system = self.system
        inner = len(system.wire_paths)
        above = self.above
        outputs = [above[0], *reversed(above[inner + 1 :]), *above[1 : inner + 1]]
        arguments = [register for call in self.calls for register in call.arguments]
        code, terms, new, registers = allocated(
            self.code, self.terms, [*outputs, *arguments], self.registers
        )
        calls = [
            Call(call.hint, tuple(new[register] for register in call.arguments), call.results)
            for call in self.calls
        ]
        return Program(
            np.array(code, np.uint32).reshape(-1, 4), np.array(terms, np.uint32).reshape(-1, 2),
            list(self.coefficients), registers,
            np.array([new[register] for register in outputs], np.uint32),
            tuple(self.element_wires), tuple(self.bit_wires), self.elements,
            tuple(self.stretches), tuple(calls),
        )  # fmt: skip


def _constant(wires: Sequence[int], coefficients: Sequence[int]) -> int | None:
    """The value of a sum without wires."""
    if not wires:
        return 0
    return coefficients[0] if len(wires) == 1 and wires[0] == ONE else None


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    exponents = dict(left)
    for register, exponent in right:
        exponents[register] = exponents.get(register, 0) + exponent
    return tuple(sorted(exponents.items()))


def _common(left: Monomial, right: Monomial) -> Monomial:
    """The least common multiple of two products of divisors."""
    if left == right or not left or not right:
        return left or right
    exponents = dict(left)
    for register, exponent in right:
        exponents[register] = max(exponents.get(register, 0), exponent)
    return tuple(sorted(exponents.items()))


def _quotient(dividend: Monomial, divisor: Monomial) -> Monomial:
    if not divisor:
        return dividend
    exponents = dict(dividend)
    for register, exponent in divisor:
        exponents[register] -= exponent
    return tuple((register, exponent) for register, exponent in exponents.items() if exponent)
