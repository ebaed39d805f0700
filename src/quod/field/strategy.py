"""The choice of a limb strategy for a prime field on a machine.

A strategy is a module of `quod.field.strategies` with its row ``STRATEGY``, and an entry in
`CANDIDATES`. Only candidates for the modulus and machine are imported and asked for their cost.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from quod.field.moduli import MAX_BITS, Modulus
from quod.frozen import frozen
from quod.kernel.errors import TraceError
from quod.kernel.machine import Capability, Machine
from quod.validation import instance

if TYPE_CHECKING:
    from quod.field.prime import PrimeField
    from quod.kernel.builder.builder import Builder


@frozen
class Strategy:
    """A limb strategy.

    suits: returns the cost of a product, in multiplications per instance, or the reason why the
        machine or modulus is not supported.
    arithmetic: creates the field's arithmetic in a kernel.
    prepares: returns whether the arithmetic multiplies by prepared factors; see
        `PrimeField.multiply_prepared`.
    """

    suits: Callable[[Machine, Modulus], float | str]
    arithmetic: Callable[[Builder, Modulus], PrimeField]
    prepares: Callable[[Modulus], bool] = lambda modulus: False


@frozen
class Candidate:
    """A strategy that `prime_field` considers.

    name: its module in `quod.field.strategies`.
    bits: the sizes of its moduli, in bits.
    made_for: the capability that it requires. With None it is considered only if no earlier
        candidate suits.
    """

    name: str
    bits: range
    made_for: Capability | None = None


_61_BITS, _SHORT, _LONG = range(61, 62), range(65), range(65, MAX_BITS + 1)

CANDIDATES = (
    Candidate("mersenne61", _61_BITS),
    Candidate("one_word", _SHORT),
    Candidate("ifma52", _LONG, Capability.IFMA52),
    Candidate("limbs29", _LONG, Capability.WORD_PRODUCTS),
    Candidate("limbs32", _LONG, Capability.MAD_CARRY_32),
    Candidate("lazy_limbs", _LONG, Capability.LOW_PRODUCTS),
    Candidate("limbs64", _LONG),
)


def strategy(name: str) -> Strategy:
    """Import a strategy of `CANDIDATES` and return its row."""
    row: Strategy = import_module(f"quod.field.strategies.{name}").STRATEGY
    return row


def prime_field(k: Builder, modulus: Modulus) -> PrimeField:
    """Return the arithmetic of a field with the cheapest strategy for the machine of `k`.

    Raises UnsupportedModulusError, with the reason of each strategy, if none suits.
    """
    return strategy_for(k.machine, modulus).arithmetic(k, modulus)


def strategy_for(machine: Machine, modulus: Modulus) -> Strategy:
    """Return the cheapest strategy of a field for a machine; raises as `prime_field` does."""
    remedy = "take one of quod.field.NAMED, or make one; for an Extension use extension_field"
    instance("the field", modulus, Modulus, remedy, error=TraceError)
    best: tuple[float, Strategy] | None = None
    rejections = []
    for candidate in CANDIDATES:
        if modulus.bits not in candidate.bits or not _is_considered(candidate, machine, best):
            continue
        row = strategy(candidate.name)
        cost = row.suits(machine, modulus)
        if isinstance(cost, str):
            rejections.append(f"; {candidate.name}: {cost}")
        elif best is None or cost < best[0]:
            best = cost, row
    if best is None:
        # Not at the top: the arithmetic loads with a strategy, and only a trace needs it.
        from quod.field.prime import UnsupportedModulusError

        raise UnsupportedModulusError(
            f"no limb strategy for elements of {modulus.name} on this machine{''.join(rejections)}"
        )
    return best[1]


def _is_considered(candidate: Candidate, machine: Machine, best: object) -> bool:
    if candidate.made_for is None:
        return best is None
    return machine.has(candidate.made_for)
