"""The constraint system that tracing builds: wires, rows, namespaces and hints."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import CodeType, TracebackType
from typing import overload

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import curve_named
from quod.r1cs.bits import low_bits
from quod.r1cs.ranges import Ranges
from quod.r1cs.signal import (
    ONE,
    Signal,
    caller,
    hide_frames_of,
    merged_terms,
    place,
    signal_of,
    weighted_sum,
)
from quod.r1cs.witness_program.steps import (
    Bit,
    Hint,
    HintFunction,
    Input,
    InverseOrZero,
    Solve,
    Step,
)
from quod.validation import shown, whole_number

hide_frames_of(__file__)
MAX_WIRES = 1 << 28

Operand = Signal | int

NOT_A_BIT = (
    "is not known to be a bit; take it from private_bits or bits, call boolean first, or "
    "declare_upper_bound(signal, 1) if other constraints imply it"
)


class _Namespace:
    """The context manager that `ConstraintSystem.namespace` returns."""

    __slots__ = ("before", "name", "system")

    def __init__(self, system: ConstraintSystem, name: str) -> None:
        self.system, self.name = system, name
        # A stack, as a namespace may be entered again inside itself.
        self.before: list[int] = []

    def __enter__(self) -> None:
        system = self.system
        self.before.append(system.path)
        system.path = system.path_of(system.path, self.name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.system.path = self.before.pop()


class ConstraintSystem:
    """Constraints A(w)·B(w) = C(w) over the scalar field of a curve, filled row by row.

    `trace` creates one and passes it to a circuit's function. In a witness, public wires are 1, 2,
    ... in the order of their declaration, followed by the others in order of creation. Methods
    raise `InputError` for operands that are neither int nor signals of this system, and for changes
    after the circuit is finished.
    """

    def __init__(self, curve: str) -> None:
        """Create an empty system over the scalar field of a curve (`quod.curve.named.CURVES`)."""
        self.curve = curve_named(curve).name
        self.field: Modulus = curve_named(curve).fr
        self.prime = self.field.value
        self.inputs: dict[str, Input] = {}
        self.steps: list[Step] = []
        self.public_names: list[str] = []
        self.outputs = 0
        self.outputs_first = True
        self.private_inputs = 0
        # The index of the current namespace (0 is the outermost); parent and name of each.
        self.path = 0
        self.paths: list[tuple[int, str]] = [(-1, "")]
        self._path_numbers: dict[tuple[int, str], int] = {}
        # The namespace of each wire that is not public; entry w - 1 is that of wire w.
        self.wire_paths: list[int] = []
        self.wire_names: dict[int, str] = {}
        self.free_wires: set[int] = set()
        self._ranges = Ranges()
        # For each of A, B and C: the wires and coefficients of all rows, and the end of each row.
        self.columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.values: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.ends: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.row_paths: list[int] = []
        self.row_codes: list[CodeType] = []
        self.row_instructions: list[int] = []
        # Wires without a value yet, and the code location that created each.
        self.unknown: dict[int, tuple[CodeType, int]] = {}
        self.one = Signal(self, (ONE,), (1,))
        self.zero = Signal(self, (), ())
        # True once a `Circuit` was made; its shape and witnesses are cached.
        self.is_finished = False

    # --- inputs and outputs

    @overload
    def private(self, name: str) -> Signal: ...
    @overload
    def private(self, name: str, count: int) -> list[Signal]: ...
    def private(self, name: str, count: int | None = None) -> Signal | list[Signal]:
        """Declare an input that only the prover knows: one signal, or a list of `count`."""
        wires = [self._new_wire(name) for _ in range(self._input_length(name, count))]
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
        for duplicate in {*self.inputs, *self.public_names}.intersection(names):
            raise _duplicate_name_error(duplicate)
        self.outputs_first &= not self.outputs or self.outputs == len(self.public_names)
        wires = [self._new_public(wire_name) for wire_name in names]
        self.inputs[name] = Input(name, wires, bits=False, single=count is None, public=True)
        return self._signals(wires, count is None)

    def private_bits(self, name: str, count: int) -> list[Signal]:
        """Declare a private input in [0, 2**count) and return its `count` bits, least first.

        Each bit is constrained to 0 or 1. The number itself has no wire; `pack` computes it from
        the bits.
        """
        count = whole_number("the number of bits", count, 1, MAX_WIRES)
        wires = []
        for _ in range(self._input_length(name, count)):
            wires.append(self._new_wire(name))
            self.boolean(self._signal(wires[-1]))
        self.private_inputs += len(wires)
        self.inputs[name] = Input(name, wires, bits=True, single=True, public=False)
        return [self._signal(wire) for wire in wires]

    def output(self, name: str, signal: Operand) -> Signal:
        """Add a public wire that is constrained to equal a signal, and return it."""
        value = self._operand(signal)
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
        first, second = self._operand(a), self._operand(b)
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
        first, second = self._operand(a), self._operand(b)
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
        value, if_zero = self._operand(self._bit(bit)), signal_of(self, other)
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
        value = self._operand(signal)
        position = whole_number("the position of a bit", position, 0, self.field.bits - 1)
        wire = self._new_wire()
        self.steps.append(Bit(wire, value, position))
        return self._signal(wire)

    def inverse_or_zero(self, signal: Operand) -> Signal:
        """Return a new, unconstrained wire: the inverse of a signal, or 0 if the signal is 0."""
        value = self._operand(signal)
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
        operands = tuple(self._operand(argument) for argument in arguments)
        wires = [self._new_wire() for _ in range(whole_number("count", count, 1, MAX_WIRES))]
        self.steps.append(Hint(wires, function, operands))
        return [self._signal(wire) for wire in wires]

    def free(self, *signals: Signal) -> None:
        """Declare that wires may have several valid values, so that `tamper` reports no error."""
        for signal in signals:
            self.free_wires.update(signal_of(self, signal).wires)

    # --- bounds of signals

    def upper_bound(self, signal: Operand) -> int | None:
        """Return an upper bound of a signal that the constraints so far imply, or None.

        Bounds are known for bits (`boolean`, `bits`, `private_bits`, x·(1 - x) = 0), for signals
        decomposed by `bits`, for sums and products of bounded signals that cannot wrap around the
        prime, for signals equal to one of these, and for signals passed to `declare_upper_bound`.
        Constraints on sums of more than two terms are not analysed.
        """
        return self._ranges.upper_bound(signal_of(self, signal))

    def declare_upper_bound(self, signal: Operand, most: int) -> Signal:
        """Declare an upper bound that the constraints imply but Quod cannot derive.

        Gadgets that need a bit or a small number then accept the signal. This adds no constraint
        and checks nothing: if the constraints do not imply the bound, the circuit is unsound.
        Returns the signal.
        """
        value = signal_of(self, signal)
        most = whole_number("the upper bound", most, 0, self.prime - 1)
        if (constant := value.constant) is not None and constant > most:
            raise InputError(
                f"{self._here()}: the constant {shown(constant)} exceeds the bound {shown(most)}"
            )
        self._ranges.record(value, most)
        return value

    # --- namespaces

    def namespace(self, name: str) -> _Namespace:
        """Return a context manager; constraints and wires added in its body get the namespace."""
        if type(name) is not str or not name:
            raise InputError(f"the name of a namespace must be a nonempty str, not {shown(name)}")
        return _Namespace(self, name)

    def path_of(self, parent: int, name: str) -> int:
        """Return the index of a namespace within another; adds it if it is new."""
        index = self._path_numbers.setdefault((parent, name), len(self.paths))
        if index == len(self.paths):
            self.paths.append((parent, name))
        return index

    # --- internals

    def _signal(self, wire: int) -> Signal:
        return Signal(self, (wire,), (1,))

    def _signals(self, wires: list[int], single: bool) -> Signal | list[Signal]:
        return self._signal(wires[0]) if single else [self._signal(wire) for wire in wires]

    def _operand(self, operand: Operand) -> Signal:
        """Return an operand as a signal; raises InputError if a wire of it has no value yet."""
        signal = signal_of(self, operand)
        if self.unknown and not self.unknown.keys().isdisjoint(signal.wires):
            for wire in merged_terms(signal.wires, signal.coefficients, self.prime)[0]:
                if wire in self.unknown:
                    raise InputError(
                        f"{self._here()}: the wire {self.wire_names.get(wire, wire)} has no value "
                        "yet; add the constraint that determines it first"
                    )
        return signal

    def _bit(self, operand: Operand) -> Signal:
        """Return an operand that must be a bit; raises InputError for any other constant."""
        signal = signal_of(self, operand)
        if (constant := signal.constant) not in (None, 0, 1):
            raise InputError(f"{self._here()}: {shown(constant)} is not a bit")
        return signal

    def _check_open(self) -> None:
        """Raise InputError if the circuit is already finished."""
        if self.is_finished:
            raise InputError(
                f"{self._here()}: the circuit is already traced; its signals are no longer usable"
            )

    def _new_wire(self, name: str = "") -> int:
        """Add a wire that is not public; return its number."""
        self._check_open()
        self.wire_paths.append(self.path)
        wire = len(self.wire_paths)
        if name:
            self.wire_names[wire] = name
        return wire

    def _new_public(self, name: str) -> int:
        self.public_names.append(name)
        return -len(self.public_names)

    def _new_output(self, name: str) -> int:
        """Add a public wire that the circuit computes; return its number."""
        self._check_name(name)
        if self.outputs != len(self.public_names):
            self.outputs_first = False
        self.outputs += 1
        return self._new_public(name)

    def _input_length(self, name: str, count: int | None) -> int:
        self._check_name(name)
        return 1 if count is None else whole_number(f"the length of {name}", count, 1, MAX_WIRES)

    def _check_name(self, name: object) -> None:
        self._check_open()
        if type(name) is not str or not name:
            raise InputError(
                f"the name of an input or output must be a nonempty str, not {shown(name)}"
            )
        if name in self.inputs or name in self.public_names:
            raise _duplicate_name_error(name)

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
        self.row_paths.append(self.path)
        self.row_codes.append(code)
        self.row_instructions.append(offset)

    def row(self, side: int, row: int) -> tuple[list[int], list[int]]:
        """Return the wires and coefficients of a row of A, B or C (`side` 0, 1 or 2)."""
        ends = self.ends[side]
        start, end = ends[row - 1] if row else 0, ends[row]
        return self.columns[side][start:end], self.values[side][start:end]

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

    def _here(self) -> str:
        return place(*caller(sys._getframe(1)))


def _duplicate_name_error(name: str) -> InputError:
    return InputError(f"two inputs or outputs have the name {name!r}; choose another name")
