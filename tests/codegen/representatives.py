"""The kernels whose texts `make test` compares."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_VARIANT = re.compile(r"\[.*\]$|\.(bn254|bls12_377|bls12_381)\..*$")
"""The field, curve, hash or stored type that a kernel is registered for, in its name."""

_PREFERRED = (r"\[?bn254\b(?!\.g2)", "weierstrass", r"m31\b")
"""Variants of long fields, and of those that other tests compile."""


def one_of_each(names: Iterable[str]) -> frozenset[str]:
    """One name of each kernel: another variant's text has the same parts."""
    kernels: dict[str, list[str]] = {}
    for name in sorted(names):
        kernels.setdefault(_VARIANT.sub("", name), []).append(name)
    return frozenset(min(variants, key=_preference) for variants in kernels.values())


@functools.cache
def representatives(names: tuple[str, ...]) -> frozenset[str]:
    """The first kernel of each package, by name, whose texts are compared for every machine.

    A change of the emitters for one machine shows in their texts. A change of a kernel shows in its
    text for any machine.
    """
    first: dict[str, str] = {}
    for name in sorted(one_of_each(names)):
        first.setdefault(name.partition(".")[0].partition("_")[0], name)
    return frozenset(first.values())


def _preference(name: str) -> tuple[int, str]:
    matches = [place for place, variant in enumerate(_PREFERRED) if re.search(variant, name)]
    return min(matches, default=len(_PREFERRED)), name
