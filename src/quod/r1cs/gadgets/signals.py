"""What callers give to gadgets: signals of one system, which is over the right field."""

from __future__ import annotations

from quod.errors import InputError, MismatchError
from quod.field.moduli import Modulus
from quod.r1cs.signal import Signal, signal_of
from quod.r1cs.system import ConstraintSystem
from quod.validation import in_order, instance, shown


def system_over(system: object, field: Modulus | None = None) -> ConstraintSystem:
    """A system, over a field if one is given; MismatchError for one over another."""
    found = instance("the system", system, ConstraintSystem, "trace hands one to a function")
    if field is not None and found.prime != field.value:
        raise MismatchError(
            f"this gadget is over {field.name}, the circuit over {found.field.name}"
        )
    return found


def signals(
    system: ConstraintSystem, name: str, given: object, count: int | None = None, *, least: int = 0
) -> list[Signal]:
    """Signals or numbers as signals, `count` of them or at least so many; else InputError."""
    found = [signal_of(system, each) for each in in_order(name, given)]
    if count is not None and len(found) != count:
        raise InputError(f"{name} must be {count} signals, not {len(found)}")
    if len(found) < least:
        raise InputError(f"{name} must be at least {least} signals, not {len(found)}")
    return found


def bit_signals(
    system: ConstraintSystem, name: str, given: object, count: int | None = None, *, least: int = 0
) -> list[Signal]:
    """The same of what are to be bits, which is for the caller to have shown of those that are not
    constant; InputError for constants that are none."""
    found = signals(system, name, given, count, least=least)
    for signal in found:
        if (number := signal.constant) not in (None, 0, 1):
            raise InputError(f"{name} have {shown(number)}, which is no bit")
    return found
