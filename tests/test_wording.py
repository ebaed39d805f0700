"""Words of messages."""

from __future__ import annotations

import pytest

from quod.wording import alternatives, listed


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_alternatives(words: list[str], text: str) -> None:
    assert alternatives(words) == text


def test_empty_alternatives_are_omitted() -> None:
    assert listed({"missing": ["x", "y"], "twice": [], "unknown": ["z"]}) == (
        "missing: x, y; unknown: z"
    )
    assert listed({"missing": []}) == ""
