"""Neptune's Poseidon in a circuit, in the constraints of neptune's first circuit.

`neptune::circuit::poseidon_hash`, for which Filecoin's keys were generated; neptune's later
`circuit2` has fewer constraints. Each S-box is three constraints. The linear layers cost nothing,
but an S-box after a linear layer first copies its operand to a variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quod.field.moduli import BLS12_381_FR
from quod.hash.arguments import element
from quod.hash.neptune import HALF_ROUNDS, NeptuneParameters, merkle_tag, neptune_parameters
from quod.r1cs.gadgets.signals import check_field, signals
from quod.r1cs.repetition.shortcuts import element_shortcut, with_shortcut
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.r1cs.traced import Shortcut

hide_frames_of(__file__)

_P = BLS12_381_FR.value


def neptune_hash(
    system: ConstraintSystem, inputs: Sequence[Operand], *, tag: int | None = None
) -> Signal:
    """Hash 2, 4, 8, 11, 16, 24 or 36 signals over BLS12-381; the result is a new wire.

    tag: the domain tag, by default that of Merkle trees.
    311, 377, 505 or 598 constraints for 2, 4, 8 or 11 inputs. The reference is
    `quod.hash.neptune_hash`. Raises InputError for another number of inputs, and MismatchError for
    a circuit over another field.
    """
    check_field(system, BLS12_381_FR)
    operands = signals(system, "the inputs of Poseidon", inputs)
    neptune_parameters(len(operands))
    tag = merkle_tag(len(operands)) if tag is None else element("the tag", tag, BLS12_381_FR)
    result: Signal = system.repeat(_permutation, operands, tag)
    return result


def _shortcut(
    system: ConstraintSystem, arguments: Sequence[Any], result: Signal
) -> Shortcut | None:
    operands, tag = arguments
    return element_shortcut("neptune_hash", (len(operands), tag), operands, [result])


@with_shortcut(_shortcut)
def _permutation(system: ConstraintSystem, operands: Sequence[Signal], tag: int) -> Signal:
    """Apply the permutation to a tag and the inputs; return the second element of the state."""
    parameters = neptune_parameters(len(operands))
    first, *constants = parameters.first_constants
    with system.namespace("first half"):
        state = _first_round(system, parameters, tag, operands, first)
        state = _mixed(system, state, parameters.matrix)
        for number, round_constants in enumerate(constants, 2):
            is_last = number == HALF_ROUNDS
            matrix = parameters.pre_sparse_matrix if is_last else parameters.matrix
            state = _mixed(system, _full_round(system, state, round_constants), matrix)
    with system.namespace("partial rounds"):
        state = _partial_rounds(system, parameters, state)
    with system.namespace("last half"):
        for round_constants in (*parameters.last_constants, (0,) * parameters.width):
            state = _mixed(system, _full_round(system, state, round_constants), parameters.matrix)
        return _copied(system, state[1])


def _first_round(
    system: ConstraintSystem, parameters: NeptuneParameters, tag: int, inputs: Sequence[Signal],
    constants: Sequence[int],
) -> list[Signal]:  # fmt: skip
    """Apply the S-boxes of the first round; that of the tag is a constant.

    The initial constants are added within the constraints of the S-boxes, without a copy.
    """
    tag_key, *keys = parameters.initial_constants
    tag_constant, *input_constants = constants
    return [
        system.constant(pow(tag + tag_key, 5, _P) + tag_constant),
        *(
            _fifth_power(system, signal + key, constant)
            for signal, key, constant in zip(inputs, keys, input_constants, strict=True)
        ),
    ]


def _full_round(
    system: ConstraintSystem, state: Sequence[Signal], constants: Iterable[int]
) -> list[Signal]:
    return [
        _fifth_power(system, _copied(system, signal), constant)
        for signal, constant in zip(state, constants, strict=True)
    ]


def _partial_rounds(
    system: ConstraintSystem, parameters: NeptuneParameters, state: list[Signal]
) -> list[Signal]:
    """Apply the rounds with an S-box in the first element only, and a sparse matrix."""
    rounds = zip(parameters.partial_constants, parameters.sparse_matrices, strict=True)
    for constant, sparse in rounds:
        first = _fifth_power(system, _copied(system, state[0]), constant)
        state = [
            system.sum([first, *state[1:]], sparse.column),
            *(
                signal + first.scaled(factor)
                for signal, factor in zip(state[1:], sparse.row, strict=True)
            ),
        ]
    return state


def _mixed(
    system: ConstraintSystem, state: Sequence[Signal], matrix: Iterable[Sequence[int]]
) -> list[Signal]:
    """Multiply the state, a row vector, by a matrix; no constraint."""
    return [system.sum(state, column) for column in zip(*matrix, strict=True)]


def _copied(system: ConstraintSystem, signal: Signal) -> Signal:
    copy = system.wire()
    system.enforce(signal, system.one, copy)
    return copy


def _fifth_power(system: ConstraintSystem, base: Signal, constant: int) -> Signal:
    """Return base**5 + constant as a new wire; 3 constraints."""
    square = system.multiply(base, base)
    fourth_power = system.multiply(square, square)
    result = system.wire()
    system.enforce(base, fourth_power, result - constant)
    return result
