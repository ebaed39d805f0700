"""Repeated functions of bits whose results a kernel computes ahead of their wires.

The calls of a compression function follow one another, so their witness would be computed call by
call. With a bit function the results of each call are computed from its arguments alone, on packed
words, and the wires of all calls at the end, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from quod.r1cs.signal import ONE, Signal, merged_terms
from quod.r1cs.traced import BitCall, TracedSystem

_Function = TypeVar("_Function", bound=Callable[..., Any])

AsSignals = Callable[[Any, Any], Sequence[Signal]]


def computes(bit_function: str, as_signals: AsSignals) -> Callable[[_Function], _Function]:
    """Declare that a repeated function computes a bit function, from its arguments to its results.

    bit_function: a name in `quod.r1cs.bit_functions.BIT_FUNCTIONS`.
    as_signals: called with the block's system and an argument or the result, returns its bits: each
        a wire, 1 minus a wire, or a constant. A block with bits of another form has no bit
        function.

    The declaration is no constraint: if it is wrong, witnesses do not satisfy the circuit.
    """

    def declare(function: _Function) -> _Function:
        _DECLARED[function] = bit_function, as_signals
        return function

    return declare


_DECLARED: dict[Callable[..., Any], tuple[str, AsSignals]] = {}


def bit_call_of(
    system: TracedSystem, function: Callable[..., Any], arguments: Sequence[Any], result: Any
) -> BitCall | None:
    """Return the bits of a traced function for which `computes` declares a bit function.

    system: that of the block, and of the signals of its arguments and of its result.
    """
    declared = _DECLARED.get(function)
    if declared is None:
        return None
    # Imported here, as most circuits have no bit function.
    from quod.r1cs.bit_functions import BIT_FUNCTIONS, WORD_BITS

    name, as_signals = declared
    bit_function = BIT_FUNCTIONS[name]
    argument_bits = [
        _bit(signal) for argument in arguments for signal in as_signals(system, argument)
    ]
    result_bits = [_bit(signal) for signal in as_signals(system, result)]
    used_bits = [bit for bit in argument_bits if bit is not None]
    wires = [bit[0] for bit in result_bits if bit is not None and bit[0] != ONE and not bit[1]]
    sizes = WORD_BITS * bit_function.argument_words, WORD_BITS * bit_function.result_words
    if (len(argument_bits), len(result_bits)) != sizes or (len(used_bits), len(wires)) != sizes:
        return None
    return BitCall(name, tuple(used_bits), tuple(wires))


def _bit(signal: Signal) -> tuple[int, bool] | None:
    """Return a bit as in `BitCall.arguments`; None for a signal of another form."""
    if (constant := signal.constant) is not None:
        return (ONE, constant == 0) if constant in (0, 1) else None
    prime = signal.system.prime
    terms = {
        wire: coefficient % prime
        for wire, coefficient in zip(*merged_terms(signal.wires, signal.coefficients, prime))
    }
    if terms.pop(ONE, 0) == 1 and [*terms.values()] == [prime - 1]:
        return next(iter(terms)), True
    return (signal.wires[0], False) if signal.coefficients == (1,) else None
