"""Validation of the arguments of gadgets: signals of one system over the right field."""

from __future__ import annotations

from quod.errors import InputError, MismatchError
from quod.field.moduli import Modulus
from quod.r1cs.signal import Signal, signal_of
from quod.r1cs.system import NOT_A_BIT, ConstraintSystem
from quod.validation import in_order, shown


def system_over(system: ConstraintSystem, field: Modulus | None = None) -> ConstraintSystem:
    """Return the system; MismatchError if it is not over `field`."""
    if field is not None and system.prime != field.value:
        raise MismatchError(
            f"this gadget is over {field.name}, the circuit over {system.field.name}"
        )
    return system


def signals(
    system: ConstraintSystem,
    name: str,
    operands: object,
    count: int | None = None,
    *,
    least: int = 0,
) -> list[Signal]:
    """Return signals or numbers as signals.

    InputError if there are not `count` of them, or fewer than `least`.
    """
    result = [signal_of(system, each) for each in in_order(name, operands)]
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
    """Signals or numbers that are bits; see `signals`.

    InputError for a signal that is not shown to be a bit (`ConstraintSystem.at_most`), and for
    another constant.
    """
    bits = signals(system, name, operands, count, least=least)
    for signal in bits:
        most = system.at_most(signal)
        if most is None or most > 1:
            if (number := signal.constant) is not None:
                raise InputError(f"{name} contain {shown(number)}, which is no bit")
            raise InputError(f"{name} contain a signal that {NOT_A_BIT}")
    return bits


def most_size(system: ConstraintSystem) -> int:
    """The bits of the largest numbers that comparisons take."""
    return system.prime.bit_length() - 3
