"""Enumerations that select code have a case for each member: an unknown member is an error.

A stand-in for a further member goes through every function that selects by it. Without a case for
each member, the last `else` would take it for another one, and differently on host and device.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pytest

from quod.curve.named.bn254 import BN254
from quod.curve.parameters import Family, Twist, by_family, by_twist
from quod.field import EXTENSIONS
from quod.gkr import Prover, Reduction, VerifyingKey, error_terms, verify
from quod.gkr.reduction import by_reduction
from quod.gkr.size import layer_bytes
from quod.hash import Hash
from tests.gkr.circuits import satisfied

Member = TypeVar("Member", bound=Enum)

FIELD = EXTENSIONS["m31.4"]
SOURCES = Path(__file__).parents[1] / "src" / "quod"


def stand_in(kind: type[Member]) -> Member:
    """A member that no code knows."""
    member = object.__new__(kind)
    member._name_, member._value_ = "STAND_IN", "stand-in"
    return member


def test_an_unknown_reduction_is_an_error() -> None:
    circuit, inputs, public = satisfied(FIELD.modulus, 3, layers=1, log_inputs=2)
    key = VerifyingKey.of(circuit, FIELD)
    proof = Prover("cpu", key, circuit).prove(inputs, public, check=False)
    key.__dict__.update(reduction=stand_in(Reduction))
    calls: list[Callable[[], object]] = [
        lambda: verify(key, circuit, public, proof),
        lambda: Prover("cpu", key, circuit),
        lambda: layer_bytes(circuit, FIELD, 1, key.reduction),
        lambda: error_terms(circuit, FIELD, reduction=key.reduction),
        lambda: by_reduction(key.reduction, places=0, columns=0),
    ]
    for call in calls:
        with pytest.raises(AssertionError, match="unreachable"):
            call()


def test_an_unknown_family_or_twist_is_an_error() -> None:
    with pytest.raises(AssertionError, match="unreachable"):
        by_family(stand_in(Family), bn=0, bls12=0)
    with pytest.raises(AssertionError, match="unreachable"):
        by_twist(stand_in(Twist), d=0, m=0)
    other: Any = object.__new__(type(BN254))
    other.__dict__.update(BN254.__dict__, family=stand_in(Family))
    for name in ("trace", "ate_loop"):
        other.__dict__.pop(name, None)
        with pytest.raises(AssertionError, match="unreachable"):
            getattr(other, name)


def test_no_code_compares_with_a_single_enum_member() -> None:
    """Comparisons have an implicit else; the functions above have a case for each member."""
    kinds = "|".join(kind.__name__ for kind in (Hash, Reduction, Family, Twist))
    compared = re.compile(rf"(?:is|is not|==|!=) (?:{kinds})\.[A-Z]\w*")
    comparisons = {
        (path.relative_to(SOURCES).as_posix(), comparison)
        for path in SOURCES.rglob("*.py")
        for comparison in compared.findall(path.read_text())
    }
    assert comparisons == set()
