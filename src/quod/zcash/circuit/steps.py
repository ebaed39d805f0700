"""Steps that the Output circuits of Sapling and MASP share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from quod.curve.edwards.affine import EdwardsPair
from quod.hash.hash_to_jubjub import find_group_hash
from quod.hash.sapling_pedersen import NOTE_COMMITMENT
from quod.r1cs.gadgets.bellman.booleans import Boolean
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import EdwardsPoint
from quod.zcash.circuit.windows import fixed_multiple, pedersen

P = ParamSpec("P")
T = TypeVar("T")

VALUE_BITS = 64
_SCALAR_BITS = 252
_COORDINATE_BITS = 255


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


def random_multiple(
    system: ConstraintSystem, name: str, computation: str, generator: EdwardsPair
) -> EdwardsPoint:
    """Return a generator times a scalar, the private input `name`.

    computation: the namespace of the multiplication.
    """
    bits = within_namespace(system, name, system.private_bits, name, _SCALAR_BITS)
    return within_namespace(system, computation, fixed_multiple, system, generator, bits)


def ephemeral_key_and_recipient(system: ConstraintSystem, base: EdwardsPoint) -> list[Boolean]:
    """Make epk = esk * g_d public; return the 256 bits of pk_d.

    The bits are not constrained to encode a point.
    """
    esk = within_namespace(system, "esk", system.private_bits, "esk", _SCALAR_BITS)
    epk = within_namespace(system, "epk computation", base.times, esk)
    within_namespace(system, "epk", epk.output, "epk")
    v = within_namespace(system, "pk_d bits of v", system.private_bits, "pk_d_v", _COORDINATE_BITS)
    return [*v, *within_namespace(system, "pk_d bit of u", system.private_bits, "pk_d_u", 1)]


def commit_note(system: ConstraintSystem, personalisation: bytes, note: Sequence[Boolean]) -> None:
    """Make u of the note's commitment public.

    personalisation: the domain of the hash to the curve that gives all generators; the Pedersen
        message has the prefix NOTE_COMMITMENT.
    """
    contents_hash = within_namespace(
        system, "note content hash", pedersen, system, NOTE_COMMITMENT, note, personalisation
    )
    randomness = random_multiple(
        system, "rcm", "computation of commitment randomness",
        find_group_hash(personalisation, b"r"),
    )  # fmt: skip
    cm = within_namespace(system, "randomization of note commitment", contents_hash.add, randomness)
    within_namespace(system, "commitment", system.output, "cmu", cm.u)
