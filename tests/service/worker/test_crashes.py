"""Servers and workers end at random moments: every accepted job ends once, with proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.queue.conftest import cluster, place, store
from tests.service.queue.places import Place
from tests.service.worker.crashing import crash

SEED = 2

__all__ = ["cluster", "place", "store"]


@pytest.mark.thorough
def test_every_accepted_job_ends_once(place: Place, tmp_path: Path) -> None:
    toll = crash(place, tmp_path, most=6, jobs=10_000, seed=SEED)
    # Both kinds, as the seed has it.
    assert min(toll.servers, toll.workers) > 0
    assert toll.attempts >= toll.jobs > 10
