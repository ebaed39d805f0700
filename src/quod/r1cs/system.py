"""The constraint system that tracing builds: wires, rows, namespaces and hints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from quod.errors import InputError
from quod.r1cs.bits import low_bits
from quod.r1cs.names import Namespace
from quod.r1cs.repetition.blocks import repeated
from quod.r1cs.signal import (
    ONE,
    Signal,
    caller,
    hide_frames_of,
    merged_terms,
    signal_of,
    weighted_sum,
)
from quod.r1cs.traced import MAX_WIRES, TracedSystem
from quod.r1cs.traced import Operand as Operand
from quod.r1cs.witness_program.steps import (
    Bit,
    Hint,
    HintFunction,
    Input,
    InverseOrZero,
    Solve,
)
from quod.validation import shown, whole_number

hide_frames_of(__file__)

NOT_A_BIT = (
    "is not known to be a bit; take it from private_bits or bits, call boolean first, or "
    "declare_upper_bound(signal, 1) if other constraints imply it"
)


class ConstraintSystem(TracedSystem):
    """Constraints A(w)·B(w) = C(w) over the scalar field of a curve, filled row by row.

    `trace` creates one and passes it to a circuit's function. In a witness, public wires are 1, 2,
    ... in the order of their declaration, followed by the others in order of creation. Methods
    raise `InputError` for operands that are neither int nor signals of this system, and for changes
    after the circuit is finished.
    """

    def __init__(self, curve: str) -> None:
        """Create an empty system over the scalar field of a curve (`quod.curve.named.CURVES`)."""
        super().__init__(curve)
        self.one = Signal(self, (ONE,), (1,))
        self.zero = Signal(self, (), ())

    # --- inputs and outputs

    @overload
    def private(self, name: str) -> Signal: ...
    @overload
    def private(self, name: str, count: int) -> list[Signal]: ...
    def private(self, name: str, count: int | None = None) -> Signal | list[Signal]:
        """Declare an input that only the prover knows: one signal, or a list of `count`."""
        length = self._input_length(name, count)
        self.add_names((name,))
        wires = [self._new_wire(name) for _ in range(length)]
        self.private_inputs += len(wires)
        self.inputs[name] = Input(name, wires, bits=False, single=count is None, public=False)
        return self._signals(wires, count is None)

    @overload
    def public(self, name: str) -> Signal: ...
    @overload
    def public(self, name: str, count: int) -> list[Signal]: ...
    def public(self, name: str, count: int | None = None) -> Signal | list[Signal]:
        """Declare an input that the verifier knows too: one signal, or a list of `count`."""
        length = self._input_length(name, count)
        names = [name] if count is None else [f"{name}[{index}]" for index in range(length)]
        self.add_names((name,) if count is None else (name, *names))
        wires = [self._new_public(wire_name) for wire_name in names]
        self.inputs[name] = Input(name, wires, bits=False, single=count is None, public=True)
        return self._signals(wires, count is None)

    def private_bits(self, name: str, count: int) -> list[Signal]:
        """Declare a private input in [0, 2**count) and return its `count` bits, least first.

        Each bit is constrained to 0 or 1. The number itself has no wire; `pack` computes it from
        the bits.
        """
        return self._private_bits(
            name, whole_number("the number of bits", count, 1, MAX_WIRES), "bits"
        )

    def private_bytes(self, name: str, count: int) -> list[Signal]:
        """Declare a private input of `count` bytes and return their bits, in order, least first.

        Each bit is constrained to 0 or 1.
        """
        count = whole_number("the number of bytes", count, 1, MAX_WIRES // 8)
        return self._private_bits(name, 8 * count, "bytes")

    def private_point(self, name: str) -> list[Signal]:
        """Declare a private input of two coordinates; adds no constraint."""
        signals = self.private(name, 2)
        self.inputs[name].kind = "point"
        return signals

    def public_point(self, name: str) -> list[Signal]:
        """Declare a public input of two coordinates; adds no constraint."""
        signals = self.public(name, 2)
        self.inputs[name].kind = "point"
        return signals

    def _private_bits(self, name: str, count: int, kind: str) -> list[Signal]:
        length, wires = self._input_length(name, count), []
        self.add_names((name,))
        for _ in range(length):
            wires.append(self._new_wire(name))
            self.boolean(self._signal(wires[-1]))
        self.private_inputs += len(wires)
        self.inputs[name] = Input(name, wires, bits=True, single=True, public=False, kind=kind)
        return [self._signal(wire) for wire in wires]

    def output(self, name: str, signal: Operand) -> Signal:
        """Add a public wire that is constrained to equal a signal, and return it."""
        value = self.determined(signal)
        wire = self._new_output(name)
        out = self._signal(wire)
        self._row(out, self.one, value)
        self._ranges.follow(out, self.one, value)
        self.steps.append(Solve(wire, len(self.row_paths) - 1, 0))
        return out

    # --- constraints

    def enforce(self, a: Operand, b: Operand, c: Operand) -> None:
        """Add the constraint a·b = c; it may determine the value of one wire from `wire`."""
        first, second, product = (signal_of(self, operand) for operand in (a, b, c))
        self._row(first, second, product)
        self._ranges.follow(first, second, product)
        if self.unknown:
            self._solve()

    def assert_equal(self, a: Operand, b: Operand) -> None:
        """Constrain a = b; raises InputError for two different constants."""
        first, second = signal_of(self, a), signal_of(self, b)
        left, right = first.constant, second.constant
        if left is not None and right is not None:
            if left != right:
                raise InputError(
                    f"{self._here()}: the constants {left} and {right} are never equal"
                )
            return
        self.enforce(first, self.one, second)

    def boolean(self, signal: Operand) -> None:
        """Constrain a signal to 0 or 1; raises InputError for any other constant."""
        value = self._bit(signal)
        self._row(self.one - value, value, self.zero)
        self._ranges.record(value, 1)

    def assert_nonzero(self, signal: Operand) -> None:
        """Constrain a signal to be nonzero, with a wire for its inverse; one constraint."""
        self.divide(self.one, signal)

    # --- arithmetic

    def constant(self, number: int) -> Signal:
        """Return a constant signal."""
        return signal_of(self, number)

    def sum(self, signals: Iterable[Operand], weights: Iterable[int] | None = None) -> Signal:
        """Return the sum of signals times weights (default 1); adds no constraint."""
        return weighted_sum(signals, weights, system=self)

    def pack(self, bits: Sequence[Operand]) -> Signal:
        """Return the number with these bits, least first, modulo the prime; adds no constraint."""
        return self.sum(bits, [1 << index for index in range(len(bits))])

    def bits(self, signal: Operand, count: int | None = None) -> list[Signal]:
        """Decompose a signal into `count` bits, by default all; see `quod.r1cs.low_bits`."""
        return low_bits(self, signal, count)

    def multiply(self, a: Operand, b: Operand) -> Signal:
        """Return a·b; adds a wire and a constraint unless a factor is constant."""
        first, second = self.determined(a), self.determined(b)
        if (constant := second.constant) is not None:
            return first.scaled(constant)
        if (constant := first.constant) is not None:
            return second.scaled(constant)
        wire = self._new_wire()
        product = self._signal(wire)
        self._row(first, second, product)
        self.steps.append(Solve(wire, len(self.row_paths) - 1, 2))
        self._ranges.follow_product(first, second, product)
        return product

    def divide(self, a: Operand, b: Operand) -> Signal:
        """Return a/b; adds a wire and the constraint wire·b = a, unless b is constant.

        Raises InputError if b is the constant 0. If inputs make b 0, the constraint fails, unless a
        is 0 as well; then any quotient satisfies it. Use `divide` only if other constraints make b
        nonzero.
        """
        first, second = self.determined(a), self.determined(b)
        if (constant := second.constant) is not None:
            if not constant:
                raise InputError(f"{self._here()}: division by the constant 0")
            return first.scaled(pow(constant, -1, self.prime))
        wire = self._new_wire()
        quotient = self._signal(wire)
        self._row(quotient, second, first)
        self.steps.append(Solve(wire, len(self.row_paths) - 1, 0))
        return quotient

    def select(self, bit: Operand, chosen: Operand, other: Operand) -> Signal:
        """Select `chosen` if the bit is 1, `other` if it is 0; one constraint.

        Raises InputError for a constant other than 0 and 1, and for a signal that is not known to
        be a bit (from `boolean`, `bits`, `private_bits` or `declare_upper_bound`).
        """
        value, if_zero = self.determined(self._bit(bit)), signal_of(self, other)
        if (bound := self._ranges.upper_bound(value)) is None or bound > 1:
            raise InputError(f"{self._here()}: the bit of select {NOT_A_BIT}")
        if_one = signal_of(self, chosen)
        selected = if_zero + self.multiply(value, if_one - if_zero)
        bounds = self._ranges.upper_bound(if_one), self._ranges.upper_bound(if_zero)
        if bounds[0] is not None and bounds[1] is not None:
            self._ranges.record(selected, max(bounds[0], bounds[1]))
        return selected

    def is_zero(self, signal: Operand) -> Signal:
        """Return a bit that is 1 if the signal is 0, else 0; two constraints."""
        value = signal_of(self, signal)
        if (constant := value.constant) is not None:
            return self.constant(int(not constant))
        inverse = self.inverse_or_zero(value)
        # If the signal is 0, any value of the inverse satisfies the constraints.
        self.free(inverse)
        flag = self.wire()
        self.enforce(value, inverse, self.one - flag)
        self.enforce(value, flag, self.zero)
        self._ranges.record(flag, 1)
        return flag

    def is_equal(self, a: Operand, b: Operand) -> Signal:
        """Return a bit that is 1 if the signals are equal, else 0; two constraints."""
        return self.is_zero(signal_of(self, a) - signal_of(self, b))

    # --- wires that are not constrained yet

    def wire(self, name: str = "") -> Signal:
        """Create a wire; the first constraint with no other new wire determines its value."""
        if type(name) is not str:
            raise InputError(f"the name of a wire must be a str, not {shown(name)}")
        wire = self._new_wire(name)
        self.unknown[wire] = caller(sys._getframe(1))
        return self._signal(wire)

    def public_wire(self, name: str) -> Signal:
        """Create a public wire whose value a constraint determines; see `wire`."""
        wire = self._new_output(name)
        self.wire_names[wire] = name
        self.unknown[wire] = caller(sys._getframe(1))
        return self._signal(wire)

    def hint_bit(self, signal: Operand, position: int) -> Signal:
        """Return a new, unconstrained wire: bit `position` of a signal's residue in [0, prime)."""
        value = self.determined(signal)
        position = whole_number("the position of a bit", position, 0, self.field.bits - 1)
        wire = self._new_wire()
        self.steps.append(Bit(wire, value, position))
        return self._signal(wire)

    def inverse_or_zero(self, signal: Operand) -> Signal:
        """Return a new, unconstrained wire: the inverse of a signal, or 0 if the signal is 0."""
        value = self.determined(signal)
        wire = self._new_wire()
        self.steps.append(InverseOrZero(wire, value))
        return self._signal(wire)

    def hint(
        self, function: HintFunction, arguments: Sequence[Operand], count: int = 1
    ) -> list[Signal]:
        """Return `count` new, unconstrained wires that a Python function computes from signals.

        The function takes one int in [0, prime) per argument and returns an int or a sequence of
        `count` ints. It is called for each input, so hints are the slowest way to compute wires.
        """
        operands = tuple(self.determined(argument) for argument in arguments)
        wires = [self._new_wire() for _ in range(whole_number("count", count, 1, MAX_WIRES))]
        self.steps.append(Hint(wires, function, operands))
        return [self._signal(wire) for wire in wires]

    def free(self, *signals: Signal) -> None:
        """Declare that wires may have several valid values, so that `tamper` reports no error."""
        for signal in signals:
            self.free_wires.update(signal_of(self, signal).wires)

    # --- repetition

    def repeat(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return function(system, *arguments), tracing the function once for many calls.

        Arguments are signals, ints and other hashable values, in lists and tuples. The function is
        traced once for each signature of them: the coefficients of the signals, which wires are
        equal to one another, their upper bounds, and all other values. Further calls copy its
        constraints, wires and steps, so a circuit of 10^8 constraints is traced in seconds.
        Constraints and witnesses are those of a direct call.

        The function must be pure: it uses only signals that are arguments, and no state that
        changes between calls. It returns signals, lists and tuples of these, or other values.
        Names that it declares are within the namespace of each call. Raises InputError for an
        argument that is not hashable, and for a wire without a value.
        """
        return repeated(self, function, arguments)

    # --- namespaces

    def namespace(self, name: str) -> Namespace:
        """Return a context manager; constraints and wires added in its body get the namespace."""
        if type(name) is not str or not name:
            raise InputError(f"the name of a namespace must be a nonempty str, not {shown(name)}")
        return Namespace(self, name)

    # --- internals

    def _signal(self, wire: int) -> Signal:
        return Signal(self, (wire,), (1,))

    def _signals(self, wires: list[int], single: bool) -> Signal | list[Signal]:
        return self._signal(wires[0]) if single else [self._signal(wire) for wire in wires]

    def _bit(self, operand: Operand) -> Signal:
        """Return an operand that must be a bit; raises InputError for any other constant."""
        signal = signal_of(self, operand)
        if (constant := signal.constant) not in (None, 0, 1):
            raise InputError(f"{self._here()}: {shown(constant)} is not a bit")
        return signal

    def _row(self, a: Signal, b: Signal, c: Signal) -> None:
        """Add a row, with the location of the code that called the public method."""
        self._check_open()
        prime = self.prime
        for signal, column, value, end in zip(
            (a, b, c), self.columns, self.values, self.ends, strict=True
        ):
            wires: Sequence[int] = signal.wires
            if len(wires) == 1:
                column.append(wires[0])
                value.append(signal.coefficients[0])
            elif wires:
                wires, coefficients = merged_terms(wires, signal.coefficients, prime)
                column.extend(wires)
                value.extend(coefficients)
            end.append(len(column))
        code, offset = caller(sys._getframe(2))
        self.rows += 1
        self.row_paths.append(self.path)
        self.row_codes.append(code)
        self.row_instructions.append(offset)

    def _solve(self) -> None:
        """Record that the last row determines its new wire, if it has exactly one, once."""
        row = len(self.row_paths) - 1
        unknowns = [
            (wire, side)
            for side in range(3)
            for wire in self.row(side, row)[0]
            if wire in self.unknown
        ]
        if len(unknowns) == 1:
            ((wire, side),) = unknowns
            del self.unknown[wire]
            self.steps.append(Solve(wire, row, side))
