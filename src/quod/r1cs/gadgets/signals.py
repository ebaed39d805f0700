"""Validation of the arguments of gadgets: signals of one system over the right field."""

from __future__ import annotations

from quod.errors import InputError, MismatchError
from quod.field.moduli import Modulus
from quod.r1cs.signal import Signal, signal_of
from quod.r1cs.system import NOT_A_BIT, ConstraintSystem
from quod.validation import in_order, shown


def check_field(system: ConstraintSystem, field: Modulus) -> None:
    """Raise MismatchError if the system is not over `field`."""
    if system.prime != field.value:
        raise MismatchError(
            f"this gadget is over {field.name}, but the circuit is over {system.field.name}"
        )


def signals(
    system: ConstraintSystem,
    name: str,
    operands: object,
    count: int | None = None,
    *,
    least: int = 0,
) -> list[Signal]:
    """Return a sequence of signals or ints as signals.

    Raises InputError if there are not exactly `count`, or fewer than `least`. `name` is the name of
    the sequence in messages.
    """
    result = [signal_of(system, operand) for operand in in_order(name, operands)]
    if count is not None and len(result) != count:
        raise InputError(f"{name} must be {count} signals, not {len(result)}")
    if len(result) < least:
        raise InputError(f"{name} must be at least {least} signals, not {len(result)}")
    return result


def bit_signals(
    system: ConstraintSystem,
    name: str,
    operands: object,
    count: int | None = None,
    *,
    least: int = 0,
) -> list[Signal]:
    """Return a sequence of bits, signals or ints, as signals; see `signals`.

    Raises InputError for a signal that is not known to be a bit (`ConstraintSystem.upper_bound`),
    and for a constant other than 0 and 1.
    """
    bits = signals(system, name, operands, count, least=least)
    for signal in bits:
        bound = system.upper_bound(signal)
        if bound is None or bound > 1:
            if (constant := signal.constant) is not None:
                raise InputError(f"{name} contain {shown(constant)}, which is not a bit")
            raise InputError(f"{name} contain a signal that {NOT_A_BIT}")
    return bits


def max_comparison_bits(system: ConstraintSystem) -> int:
    """Return the largest size in bits of the numbers that comparisons take.

    A comparison decomposes left - right + 2**size into size + 1 bits, so 2**(size + 1) must be
    below the prime; one further bit is a reserve.
    """
    return system.prime.bit_length() - 3
