"""Parameters of which some run always, and all in `make test-all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def one_and_others(values: Iterable[Any], always: Collection[Any] | None = None) -> list[Any]:
    """Parameters of a test: those of `always`, by default the first, and the others thoroughly.

    Full matrices run on one curve, field or store; the mark keeps the others for `make test-all`.
    A tuple has a value for each name of the test's parameters.
    """
    values = list(values)
    always = values[:1] if always is None else always
    assert all(value in values for value in always)
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[] if value in always else pytest.mark.thorough,
        )
        for value in values
    ]
