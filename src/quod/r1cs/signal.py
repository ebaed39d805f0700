"""Signals: linear combinations of the wires of a circuit that is being traced, with operators.

A signal has no value, because the function that builds a circuit runs once, before any inputs
exist.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import NoReturn, Protocol

from quod.errors import InputError
from quod.validation import in_order, shown_kind, whole_number

ONE = 0
"""The wire whose value is 1. Public wires are -1, -2, ..., all others 1, 2, ..."""

# Terms of equal wires are merged in a sum of more terms, and again when its length has doubled, so
# that a sum takes linear time.
_MERGE_THRESHOLD = 32


class TraceError(InputError):
    """A circuit's function used the value of a signal; the message names the line of the use."""


class ConstraintBuilder(Protocol):
    """The methods of a constraint system that its signals use."""

    prime: int

    def multiply(self, a: Signal | int, b: Signal | int) -> Signal:
        """Return the product as a new wire."""
        ...

    def divide(self, a: Signal | int, b: Signal | int) -> Signal:
        """Return the quotient as a new wire."""
        ...


class Signal:
    """A linear combination of wires, with operators on signals and int.

    Addition, subtraction and multiplication by an int add no constraints. A product or quotient of
    signals, or a power with an exponent of at least 2, is a new wire with constraints.
    Raises InputError if an operand is neither a Signal nor an int, or belongs to another circuit.

    limit: the number of terms above which terms of equal wires are merged.
    """

    __slots__ = ("coefficients", "limit", "system", "wires")
    # NumPy integers on the left then call the reflected method of the signal.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(
        self,
        system: ConstraintBuilder,
        wires: tuple[int, ...],
        coefficients: tuple[int, ...],
        limit: int = _MERGE_THRESHOLD,
    ) -> None:
        self.system, self.wires, self.coefficients, self.limit = system, wires, coefficients, limit

    @property
    def constant(self) -> int | None:
        """The value if it is the same for all inputs, else None."""
        if not self.wires:
            return 0
        if self.wires == (ONE,):
            return self.coefficients[0] % self.system.prime
        if len(self.wires) > 1 and len(set(self.wires)) < len(self.wires):
            merged = _merged(self)
            return merged.constant if len(merged.wires) < 2 else None
        return None

    def __add__(self, other: Signal | int) -> Signal:
        if type(other) is not Signal:
            residue = _residue(self.system, other)
            if not residue:
                return self
            wires, coefficients = self.wires + (ONE,), self.coefficients + (residue,)
            limit = self.limit
        else:
            if other.system is not self.system:
                raise _other_circuit_error()
            wires, coefficients = self.wires + other.wires, self.coefficients + other.coefficients
            limit = self.limit if self.limit > other.limit else other.limit
        result = Signal(self.system, wires, coefficients, limit)
        return result if len(wires) <= limit else _merged(result)

    __radd__ = __add__

    def __neg__(self) -> Signal:
        return Signal(self.system, self.wires, tuple([-k for k in self.coefficients]), self.limit)

    def __sub__(self, other: Signal | int) -> Signal:
        return self + (-other if type(other) is Signal else -_residue(self.system, other))

    def __rsub__(self, other: int) -> Signal:
        return -self + other

    def __mul__(self, other: Signal | int) -> Signal:
        if type(other) is Signal:
            return self.system.multiply(self, other)
        return self.scaled(_residue(self.system, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Signal | int) -> Signal:
        return self.system.divide(self, other)

    def __rtruediv__(self, other: int) -> Signal:
        return self.system.divide(other, self)

    def __pow__(self, exponent: int) -> Signal:
        """Compute a power by square and multiply, from the top bit of the exponent."""
        exponent = whole_number("the exponent of a signal", exponent, 0, 1 << 16)
        if not exponent:
            return Signal(self.system, (ONE,), (1,))
        result = self
        for bit in bin(exponent)[3:]:
            result = result * result
            if bit == "1":
                result = result * self
        return result

    def scaled(self, factor: int) -> Signal:
        """Return the signal times an integer, without a constraint."""
        factor = _residue(self.system, factor)
        if factor == 1:
            return self
        if not factor:
            return Signal(self.system, (), ())
        prime = self.system.prime
        return Signal(
            self.system, self.wires, tuple([k * factor % prime for k in self.coefficients]),
            self.limit,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Signal({len(self.wires)} terms)"

    # Operations that would need a value raise TraceError.

    def __bool__(self) -> NoReturn:
        raise _no_value("a truth value", "choose with `select`, and constrain with `assert_equal`")

    def __eq__(self, other: object) -> NoReturn:
        raise _no_value("`==`", "constrain it with `assert_equal`, or use the bit of `is_equal`")

    def __ne__(self, other: object) -> NoReturn:
        raise _no_value("`!=`", "use the bit of `is_equal`")

    def __lt__(self, other: object) -> NoReturn:
        raise _no_value("an order", "compare signals with a gadget such as `is_less`")

    __le__ = __gt__ = __ge__ = __lt__

    def __int__(self) -> NoReturn:
        raise _no_value("an integer value", "compute with the signal, or with its value in a hint")

    __index__ = __float__ = __int__

    def __iter__(self) -> NoReturn:
        raise _no_value("items", "decompose it into bits with `bits`")


def _no_value(value_kind: str, advice: str) -> TraceError:
    """Return the error for an operator that needs a signal's value; called by the operator."""
    code, offset = caller(sys._getframe(2))
    return TraceError(
        f"{source_line(code, offset)}: a signal has no value while its circuit is traced, so it "
        f"does not have {value_kind}; {advice}"
    )


def _other_circuit_error() -> InputError:
    return InputError(
        "the signals belong to two circuits; use only signals of the circuit that is being traced"
    )


def _residue(system: ConstraintBuilder, operand: object) -> int:
    """Return an int operand modulo the prime; InputError for any other type."""
    if type(operand) is not int:
        try:
            operand = whole_number("an operand", operand)
        except InputError:
            raise InputError(
                f"an operand must be a Signal or an int, not {shown_kind(operand)}"
            ) from None
    return operand % system.prime


def signal_of(system: ConstraintBuilder, operand: object) -> Signal:
    """Return a signal or an int as a signal of the circuit; raise InputError for other types."""
    if type(operand) is Signal:
        if operand.system is not system:
            raise _other_circuit_error()
        return operand
    residue = _residue(system, operand)
    return Signal(system, (ONE,), (residue,)) if residue else Signal(system, (), ())


def merged_terms(
    wires: Sequence[int], coefficients: Sequence[int], prime: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Merge terms of equal wires and drop zeros; return terms of distinct wires unchanged."""
    if len(set(wires)) == len(wires):
        return wires, coefficients
    sums: dict[int, int] = {}
    for wire, coefficient in zip(wires, coefficients, strict=True):
        sums[wire] = sums.get(wire, 0) + coefficient
    residues = {wire: residue for wire, value in sums.items() if (residue := value % prime)}
    return tuple(residues), tuple(residues.values())


def _merged(signal: Signal) -> Signal:
    """Return an equal signal in which no wire occurs twice."""
    wires, coefficients = merged_terms(signal.wires, signal.coefficients, signal.system.prime)
    return Signal(
        signal.system, tuple(wires), tuple(coefficients), max(_MERGE_THRESHOLD, 2 * len(wires))
    )  # fmt: skip


def weighted_sum(
    signals: Iterable[Signal | int],
    weights: Iterable[int] | None = None,
    *,
    system: ConstraintBuilder,
) -> Signal:
    """Return the sum of signals times weights, by default 1, in linear time.

    Raises InputError if the lengths differ or a signal is of another circuit.
    """
    wires: list[int] = []
    coefficients: list[int] = []
    prime = system.prime
    operands = list(in_order("the signals", signals))
    weight_list = [1] * len(operands) if weights is None else list(in_order("the weights", weights))
    if len(weight_list) != len(operands):
        raise InputError(f"{len(operands)} signals have {len(weight_list)} weights")
    for signal, weight in zip(operands, weight_list, strict=True):
        summand, factor = signal_of(system, signal), _residue(system, weight)
        if factor:
            wires.extend(summand.wires)
            coefficients.extend([k * factor % prime for k in summand.coefficients])
    merged_wires, merged_coefficients = merged_terms(wires, coefficients, prime)
    return Signal(
        system,
        tuple(merged_wires),
        tuple(merged_coefficients),
        max(_MERGE_THRESHOLD, 2 * len(merged_wires)),
    )


# --- source locations

_HIDDEN_FILES = {__file__}


def hide_frames_of(file: str) -> None:
    """Skip a file in locations, so that messages name the line that called into the file."""
    _HIDDEN_FILES.add(file)


def caller(frame: FrameType | None) -> tuple[CodeType, int]:
    """Return the code and bytecode offset of the nearest frame outside the hidden files."""
    assert frame is not None
    while frame.f_code.co_filename in _HIDDEN_FILES and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def line_of(code: CodeType, offset: int) -> int:
    """Return the line of the instruction at a byte offset, `frame.f_lasti`."""
    lines = list(code.co_positions())
    return lines[offset // 2][0] or code.co_firstlineno


def source_line(code: CodeType, offset: int) -> str:
    """Return ``file.py:line`` of the instruction at a byte offset."""
    return f"{code.co_filename.rpartition('/')[2]}:{line_of(code, offset)}"
