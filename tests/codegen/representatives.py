"""The kernels whose texts `make test` compares for every machine, not for one alone."""

from __future__ import annotations

from collections.abc import Iterable


def representatives(names: Iterable[str]) -> frozenset[str]:
    """The first kernel of each package, by name.

    A change of the emitters for one machine shows in their texts. A change of a kernel shows in its
    text for any machine.
    """
    first: dict[str, str] = {}
    for name in sorted(names):
        first.setdefault(name.partition(".")[0].partition("_")[0], name)
    return frozenset(first.values())
