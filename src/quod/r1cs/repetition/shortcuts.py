"""Shortcuts: kernels that compute the results of repeated functions ahead of their wires.

The calls of a hash's compression function follow one another, so their witness would be computed
call by call. A shortcut computes the results of a call from its arguments alone. The wires of all
calls are computed at the end, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from quod.r1cs.signal import ONE, Signal, merged_terms
from quod.r1cs.traced import Shortcut

_Function = TypeVar("_Function", bound=Callable[..., Any])

BIT_FUNCTIONS = {"sha256_compression": (24, 8), "blake2s_compression": (35, 8)}
"""Names of bit functions, with their numbers of argument words and of result words of 32 bits."""

_WORD_BITS = 32

Describe = Callable[[Any, Sequence[Any], Any], Shortcut | None]

_DESCRIPTIONS: dict[Callable[..., Any], Describe] = {}


def with_shortcut(describe: Describe) -> Callable[[_Function], _Function]:
    """Declare the shortcut of a repeated function.

    describe: called with the block's system, its arguments and its result; returns `bit_shortcut`
        or `element_shortcut` of these.

    The declaration is no constraint: if it is wrong, witnesses do not satisfy the circuit.
    """

    def declare(function: _Function) -> _Function:
        _DESCRIPTIONS[function] = describe
        return function

    return declare


def shortcut_of(
    system: Any, function: Callable[..., Any], arguments: Sequence[Any], result: Any
) -> Shortcut | None:
    """Return the shortcut of a traced function, or None; see `with_shortcut`."""
    describe = _DESCRIPTIONS.get(function)
    return None if describe is None else describe(system, arguments, result)


def bit_shortcut(
    name: str, arguments: Sequence[Signal], results: Sequence[Signal]
) -> Shortcut | None:
    """Return a shortcut for bits, each a wire, or for an argument 1 minus a wire or a constant.

    name: one of `BIT_FUNCTIONS`.
    Returns None for signals of another form or number.
    """
    if (len(arguments), len(results)) != tuple(_WORD_BITS * n for n in BIT_FUNCTIONS[name]):
        return None
    bits = [_bit(signal) for signal in arguments]
    wires = [_wire(signal) for signal in results]
    return _shortcut(name, (), bits, wires)


def element_shortcut(
    name: str, parameters: Sequence[int], arguments: Sequence[Signal], results: Sequence[Signal]
) -> Shortcut | None:
    """Return a shortcut for elements of the field, each a wire; None for other signals.

    name: "neptune_hash", with the arity and the domain tag as parameters, or "pedersen_node" with
        the scale of the Montgomery form and the personalisation of the generators as a number.
    """
    wires = [_wire(signal) for signal in arguments]
    elements = [None if wire is None else (wire, False) for wire in wires]
    return _shortcut(name, parameters, elements, [_wire(signal) for signal in results])


def _shortcut(
    name: str, parameters: Sequence[int], arguments: Sequence[tuple[int, bool] | None],
    results: Sequence[int | None],
) -> Shortcut | None:  # fmt: skip
    known_arguments = tuple([argument for argument in arguments if argument is not None])
    wires = tuple([wire for wire in results if wire is not None])
    if (len(known_arguments), len(wires)) != (len(arguments), len(results)):
        return None
    return Shortcut(name, tuple(parameters), known_arguments, wires)


def _bit(signal: Signal) -> tuple[int, bool] | None:
    """Return a bit as in `Shortcut.arguments`; None for a signal of another form."""
    if (constant := signal.constant) is not None:
        return (ONE, constant == 0) if constant in (0, 1) else None
    prime = signal.system.prime
    wires, coefficients = merged_terms(signal.wires, signal.coefficients, prime)
    terms = {
        wire: coefficient % prime for wire, coefficient in zip(wires, coefficients, strict=True)
    }
    if terms.pop(ONE, 0) == 1 and [*terms.values()] == [prime - 1]:
        return next(iter(terms)), True
    wire = _wire(signal)
    return None if wire is None else (wire, False)


def _wire(signal: Signal) -> int | None:
    """Return the wire of a signal; None if the signal is not a wire."""
    is_wire = len(signal.wires) == 1 and signal.coefficients[0] % signal.system.prime == 1
    return signal.wires[0] if is_wire and signal.wires[0] != ONE else None
