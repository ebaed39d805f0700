"""Reductions of claims about a layer to claims about the layer below it."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from quod.layered.circuit import POWERS, LayeredCircuit
from quod.validation import member


class Reduction(Enum):
    """The variables of the sumchecks of a layer; its value is the name in keys."""

    PLACES = "places"
    """The places of a layer, and the instances: short proofs (Libra's two phases)."""

    COLUMNS = "columns"
    """The instances alone. The value of every place is sent, at the point of the instances, so that
    linear maps, permutations and repeated gates cost the prover nothing: the verifier applies them
    to the weights. For many instances."""


T = TypeVar("T")


def by_reduction(reduction: Reduction, *, places: T, columns: T) -> T:
    """The value for a reduction. Each member has its own argument, so that no case is a default."""
    match reduction:
        case Reduction.PLACES:
            return places
        case Reduction.COLUMNS:
            return columns
        case _:
            assert_never(reduction)


def reduction_named(name: object) -> Reduction:
    """A reduction by its name; InputError for another one."""
    return member("the reduction", name, Reduction)


def taken_places(circuit: LayeredCircuit, number: int) -> NDArray[np.uint32]:
    """The places below a layer whose values are sent, in order: those that its gates take.

    All of them at the inputs, which a commitment is about; and the first one if there are none.
    """
    count = 1 << circuit.log_below(number)
    if number == 0:
        return np.arange(count, dtype=np.uint32)
    taken = np.zeros(count, bool)
    for gates in circuit.layers[number].gates.values():
        for column in gates.inputs:
            taken[column] = True
    taken[0] |= not taken.any()
    return np.flatnonzero(taken).astype(np.uint32)


def claimed_places(circuit: LayeredCircuit, number: int) -> NDArray[np.uint32]:
    """The places of a layer whose values a claim is about: those that the layer above takes, at
    the outputs those that are to be 0."""
    if number == len(circuit.layers) - 1:
        return np.arange(circuit.zeros, dtype=np.uint32)
    return taken_places(circuit, number + 1)


def exponents_of(kinds: frozenset[str]) -> list[int]:
    """The exponents of a layer's powers."""
    return [exponent for kind, exponent in POWERS.items() if kind in kinds]


def is_linear(kinds: frozenset[str]) -> bool:
    """Return whether a layer's values are linear in the values below."""
    return "multiply" not in kinds and not exponents_of(kinds)


def degree_by_columns(kinds: frozenset[str]) -> int:
    """The degree of a layer's polynomial in the instance variables without eq; 1 if linear."""
    return max([1, *([2] if "multiply" in kinds else []), *exponents_of(kinds)])
