"""Smaller circuits than those of the processor, and kernels that are traced once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.groth16.conftest import Made
from tests.support.traces import share_traces


@pytest.fixture(scope="session")
def circuit_files(circuit_files: Callable[..., Made]) -> Callable[..., Made]:
    """The recurrence of 6 steps; an interpreter takes three times as long for one of 20."""
    return lambda curve, steps=6: circuit_files(curve, steps)


@pytest.fixture(scope="module", autouse=True)
def shared_traces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_traces(patch)
        yield
