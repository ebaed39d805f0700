"""What a transform is told of its direction and of the order of its elements."""

from __future__ import annotations

from typing import Literal, get_args

from quod.validation import choice

Ordering = Literal["NN", "NR", "RN", "RR"]
"""Order of what comes in and of what goes out: N natural, R bit-reversed."""

Way = Literal["forward", "inverse"]
"""From coefficients to evaluations, or back."""


def check_ordering(ordering: object) -> None:
    """InputError for what is no `Ordering`."""
    choice("an ordering", ordering, get_args(Ordering))


def check_way(way: object) -> None:
    """InputError for what is no `Way`."""
    choice("a way", way, get_args(Way))
