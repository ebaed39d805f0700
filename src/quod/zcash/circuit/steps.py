"""Steps that the circuits of Sapling and MASP share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from quod.curve.edwards.affine import EdwardsPair
from quod.hash.sapling_pedersen import NOTE_COMMITMENT
from quod.r1cs.gadgets.bellman.booleans import Boolean
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import EdwardsPoint
from quod.zcash.circuit.windows import fixed_multiple, pedersen
from quod.zcash.generators import (
    note_randomness_generator,
    value_generator,
    value_randomness_generator,
)
from quod.zcash.protocol import MASP, SAPLING, Protocol

P = ParamSpec("P")
T = TypeVar("T")

_VALUE_BITS = 64
_SCALAR_BITS = 252


def within_namespace(
    system: ConstraintSystem,
    name: str,
    step: Callable[P, T],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """Run a step within a namespace, and return its result."""
    with system.namespace(name):
        return step(*arguments, **options)


def scalar_bits(system: ConstraintSystem, name: str) -> list[Signal]:
    """Return the 252 bits of a scalar, the private input `name`."""
    return within_namespace(system, name, system.private_bits, name, _SCALAR_BITS)


def random_multiple(
    system: ConstraintSystem, name: str, computation: str, generator: EdwardsPair
) -> EdwardsPoint:
    """Return a generator times a scalar, the private input `name`.

    computation: the namespace of the multiplication.
    """
    bits = scalar_bits(system, name)
    return within_namespace(system, computation, fixed_multiple, system, generator, bits)


def private_point(system: ConstraintSystem, namespace: str, name: str) -> EdwardsPoint:
    """Return the private input `name`, a point that is constrained not to have small order."""
    point = within_namespace(system, namespace, EdwardsPoint.of_input, system, name)
    within_namespace(system, f"{name} not small order", point.eightfold)
    return point


def commit_value(system: ConstraintSystem) -> list[Signal]:
    """Make the value commitment cv of Sapling public; return the 64 bits of the value."""
    with system.namespace("value commitment"):
        value = _value_bits(system)
        value_term = within_namespace(
            system, "compute the value in the exponent", fixed_multiple, system, value_generator(),
            value,
        )  # fmt: skip
        _blind_value(system, value_term, SAPLING)
    return value


def commit_asset_value(system: ConstraintSystem) -> tuple[list[Signal], list[Signal]]:
    """Make the value commitment cv of MASP public.

    Returns the 256 bits of the encoding of the value's generator, the private input
    `asset_generator`, and the 64 bits of the value.
    """
    with system.namespace("value commitment"):
        generator = within_namespace(
            system, "asset_generator", EdwardsPoint.of_input, system, "asset_generator"
        )
        encoding = within_namespace(system, "asset_generator repr", generator.encoded)
        cofactor_multiple = within_namespace(
            system, "asset_generator not small order", generator.eightfold
        )
        value = _value_bits(system)
        value_term = within_namespace(
            system, "compute the value in the exponent", cofactor_multiple.times, value
        )
        _blind_value(system, value_term, MASP)
    return encoding, value


def _value_bits(system: ConstraintSystem) -> list[Signal]:
    return within_namespace(system, "value", system.private_bits, "value", _VALUE_BITS)


def _blind_value(system: ConstraintSystem, value_term: EdwardsPoint, protocol: Protocol) -> None:
    """Make cv public: the committed value plus a multiple of the generator of randomness."""
    blinding = random_multiple(
        system, "rcv", "computation of rcv", value_randomness_generator(protocol)
    )
    cv = within_namespace(system, "computation of cv", value_term.add, blinding)
    within_namespace(system, "commitment point", cv.output, "cv")


def commit_note(
    system: ConstraintSystem, note: Sequence[Boolean], protocol: Protocol
) -> EdwardsPoint:
    """Return the commitment cm to the bits of a note."""
    contents_hash = hash_contents(system, note, protocol)
    randomness = random_multiple(
        system, "rcm", "computation of commitment randomness", note_randomness_generator(protocol)
    )
    return within_namespace(
        system, "randomization of note commitment", contents_hash.add, randomness
    )


def hash_contents(
    system: ConstraintSystem, contents: Sequence[Boolean], protocol: Protocol
) -> EdwardsPoint:
    """Return the Pedersen hash of bits with the prefix NOTE_COMMITMENT."""
    return within_namespace(
        system, "note content hash", pedersen, system, NOTE_COMMITMENT, contents, protocol.pedersen
    )
