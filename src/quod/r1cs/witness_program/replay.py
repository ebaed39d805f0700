"""The reference of witness programs: replay of the steps over integers.

Values are in one list, indexed by wire: public wires are negative and count from its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quod.errors import InputError, QuodError
from quod.r1cs.signal import Signal
from quod.r1cs.traced import TracedSystem
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step, wires_of
from quod.validation import whole_number


def replayed(
    system: TracedSystem,
    inputs: Iterable[tuple[int, int]],
    overrides: Mapping[int, int] | None = None,
) -> list[int]:
    """Compute all wires step by step, as a list indexed by wire.

    overrides: values of wires that replace the results of their steps.
    Raises the errors of `hinted`.
    """
    values = [1] + [0] * (len(system.wire_paths) + len(system.public_names))
    for wire, value in inputs:
        values[wire] = value
    if not overrides:
        for step in system.steps:
            run(system, step, values)
        return values
    for step in system.steps:
        run(system, step, values)
        for wire in wires_of(step):
            if wire in overrides:
                values[wire] = overrides[wire]
    return values


def in_order(system: TracedSystem, values: Sequence[int]) -> list[int]:
    """Reorder values of `replayed` to the order of a witness."""
    inner = len(system.wire_paths)
    return [values[0], *reversed(values[inner + 1 :]), *values[1 : inner + 1]]


def by_wire(system: TracedSystem, values: Sequence[int]) -> list[int]:
    """Reorder the values of a witness to the order of `replayed`."""
    public = len(system.public_names) + 1
    return [values[0], *values[public:], *reversed(values[1:public])]


def run(system: TracedSystem, step: Step, values: list[int]) -> None:
    """Compute the wires of a step into `values`; raises the errors of `hinted`."""
    if type(step) is Solve:
        values[step.wire] = _solved(system, step, values)
    elif type(step) is Bit:
        values[step.wire] = _value(system, step.signal, values) >> step.position & 1
    elif type(step) is InverseOrZero:
        value = _value(system, step.signal, values)
        values[step.wire] = pow(value, -1, system.prime) if value else 0
    elif type(step) is Hint:
        for wire, value in zip(
            step.wires,
            hinted(
                step,
                [_value(system, argument, values) for argument in step.arguments],
                system.prime,
            ),
            strict=True,
        ):
            values[wire] = value


def hinted(hint: Hint, arguments: list[int], prime: int) -> Sequence[int]:
    """Call a hint's function and return its results modulo the prime.

    Raises InputError if the function does not return one integer per wire, or raises an exception
    that is no `QuodError`. A `QuodError` of the function propagates.
    """
    name = getattr(hint.function, "__qualname__", "a function")
    output: object
    try:
        output = hint.function(*arguments)
    except QuodError:
        raise
    except Exception as error:
        raise InputError(
            f"the hint {name} raised {type(error).__name__} for these inputs"
        ) from error
    results: Sequence[object] = output if isinstance(output, (list, tuple)) else [output]
    if len(results) != len(hint.wires):
        raise InputError(
            f"the hint {name} returned {len(results)} values for {len(hint.wires)} wires"
        )
    return [whole_number(f"the result of the hint {name}", result) % prime for result in results]


def _value(system: TracedSystem, signal: Signal, values: list[int]) -> int:
    """Evaluate a signal."""
    return _total(signal.wires, signal.coefficients, values) % system.prime


def _total(wires: Sequence[int], coefficients: Sequence[int], values: list[int]) -> int:
    return sum([values[wire] * k for wire, k in zip(wires, coefficients, strict=True)])


def _solved(system: TracedSystem, step: Solve, values: list[int]) -> int:
    """Solve a constraint for its wire; return 0 if the divisor is 0.

    In that case the constraint fails, unless it is 0 = 0.
    """
    prime = system.prime
    totals: list[int] = []
    coefficient = 1
    for side in range(3):
        wires, coefficients = system.row(side, step.row)
        total = 0
        for wire, k in zip(wires, coefficients, strict=True):
            if wire == step.wire and side == step.side:
                coefficient = k
            else:
                total += values[wire] * k
        totals.append(total % prime)
    a, b, c = totals
    if step.side == 2:
        numerator, denominator = a * b - c, coefficient
    else:
        known_factor, other_factor = (a, b) if step.side == 0 else (b, a)
        numerator, denominator = c - known_factor * other_factor, other_factor * coefficient
    denominator %= prime
    if denominator == 1 or not denominator:
        return numerator % prime * denominator
    return numerator * pow(denominator, -1, prime) % prime
