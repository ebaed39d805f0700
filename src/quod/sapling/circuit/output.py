"""The circuit of Sapling's Output, constraint for constraint that of Zcash's `sapling-crypto`.

Zcash protocol specification, 4.18.3; `impl Circuit for Output` of `sapling-crypto/src/circuit.rs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from quod.curve.edwards_affine import EdwardsPair
from quod.r1cs.native.sapling_pedersen import (
    NOTE_COMMITMENT,
    note_commitment_randomness_generator,
)
from quod.r1cs.system import ConstraintSystem
from quod.sapling.circuit.points import EdwardsPoint
from quod.sapling.circuit.windows import fixed_multiple, pedersen
from quod.sapling.generators import value_generator, value_randomness_generator

P = ParamSpec("P")
T = TypeVar("T")

_SCALAR_BITS = 252
_VALUE_BITS = 64
_COORDINATE_BITS = 255


def sapling_output(system: ConstraintSystem) -> None:
    """7,827 constraints; public are cv.u, cv.v, epk.u, epk.v and cmu, in this order.

    Inputs are `value`, `rcv`, `g_d` (u and v), `esk`, `pk_d_v`, `pk_d_u` (the lowest bit of u) and
    `rcm`. That pk_d is on the curve is not shown, as the protocol does not need it.
    """
    with system.namespace("value commitment"):
        value = _named(system, "value", system.private_bits, "value", _VALUE_BITS)
        shown = _named(
            system, "compute the value in the exponent", fixed_multiple, system, value_generator(),
            value,
        )  # fmt: skip
        hidden = _random_multiple(
            system, "rcv", "computation of rcv", value_randomness_generator()
        )  # fmt: skip
        cv = _named(system, "computation of cv", shown.add, hidden)
        _named(system, "commitment point", cv.output, "cv")
    base = _named(system, "witness g_d", EdwardsPoint.of_input, system, "g_d")
    _named(system, "g_d not small order", base.assert_not_small_order)
    note = [*value, *_named(system, "representation of g_d", base.encoded)]
    esk = _named(system, "esk", system.private_bits, "esk", _SCALAR_BITS)
    epk = _named(system, "epk computation", base.times, esk)
    _named(system, "epk", epk.output, "epk")
    note += _named(system, "pk_d bits of v", system.private_bits, "pk_d_v", _COORDINATE_BITS)
    note += _named(system, "pk_d bit of u", system.private_bits, "pk_d_u", 1)
    hashed = _named(system, "note content hash", pedersen, system, NOTE_COMMITMENT, note)
    randomness = _random_multiple(
        system, "rcm", "computation of commitment randomness",
        note_commitment_randomness_generator(),
    )  # fmt: skip
    cm = _named(system, "randomization of note commitment", hashed.add, randomness)
    _named(system, "commitment", system.output, "cmu", cm.u)


def _random_multiple(
    system: ConstraintSystem, name: str, computation: str, generator: EdwardsPair
) -> EdwardsPoint:
    """A generator times the scalar that is an input of that name."""
    bits = _named(system, name, system.private_bits, name, _SCALAR_BITS)
    return _named(system, computation, fixed_multiple, system, generator, bits)


def _named(
    system: ConstraintSystem,
    name: str,
    step: Callable[P, T],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """What a step gives, within a namespace."""
    with system.namespace(name):
        return step(*arguments, **options)
