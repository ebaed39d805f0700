"""Reductions of claims about a layer to claims about the layer below it."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from quod.layered.circuit import POWERS, LayeredCircuit
from quod.validation import member


class Reduction(Enum):
    """The protocol for one layer: the variables its sumchecks bind; its value names it in keys."""

    TWO_PHASE = "places"
    """Two-phase (Libra): sumchecks over wires and instances. Proofs are short."""

    DATA_PARALLEL = "columns"
    """Data-parallel: sumchecks over the instances alone, for many instances. The prover sends the
    value of every wire that gates read, at the point of the instances. Linear maps, permutations
    and repeated gates cost the prover nothing, as the verifier applies them to the weights."""


T = TypeVar("T")


def by_reduction(reduction: Reduction, *, places: T, columns: T) -> T:
    """Return the argument for a reduction: `places` for two-phase, `columns` for data-parallel."""
    match reduction:
        case Reduction.TWO_PHASE:
            return places
        case Reduction.DATA_PARALLEL:
            return columns
        case _:
            assert_never(reduction)


def reduction_named(name: object) -> Reduction:
    """Return a reduction by its name; raise InputError if there is none."""
    return member("the reduction", name, Reduction)


def find_sent_wires(circuit: LayeredCircuit, number: int) -> NDArray[np.uint32]:
    """Return the wires below a layer whose values a data-parallel proof sends, in ascending order.

    They are the wires that the layer's gates read; wire 0 if the gates read none. For the lowest
    layer they are all inputs, because the commitment covers all.
    """
    count = 1 << circuit.log_below(number)
    if number == 0:
        return np.arange(count, dtype=np.uint32)
    is_read = np.zeros(count, bool)
    for gates in circuit.layers[number].gates.values():
        for wires in gates.inputs:
            is_read[wires] = True
    is_read[0] |= not is_read.any()
    return np.flatnonzero(is_read).astype(np.uint32)


def find_claimed_wires(circuit: LayeredCircuit, number: int) -> NDArray[np.uint32]:
    """Return the wires of a layer whose values a claim is about.

    They are the wires that the layer above reads; for the top layer, the outputs that must be 0.
    """
    if number == len(circuit.layers) - 1:
        return np.arange(circuit.zeros, dtype=np.uint32)
    return find_sent_wires(circuit, number + 1)


def exponents_of(kinds: frozenset[str]) -> list[int]:
    """Return the exponents of a layer's power gates."""
    return [exponent for kind, exponent in POWERS.items() if kind in kinds]


def is_linear(kinds: frozenset[str]) -> bool:
    """Return whether a layer's values are linear in the values below."""
    return "multiply" not in kinds and not exponents_of(kinds)


def degree_by_columns(kinds: frozenset[str]) -> int:
    """Return the degree of a layer's polynomial in the instance variables, without eq's factor."""
    return max([1, *([2] if "multiply" in kinds else []), *exponents_of(kinds)])
