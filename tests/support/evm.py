"""Contracts in an Ethereum VM, for tests: skipped where node or its packages are missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from quod.bench.peers.evm import Job, run_contracts, why_no_evm


def run(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """See `run_contracts`; with QUOD_TEST_NODE=required what is missing is a failure."""
    why = why_no_evm()
    if why is not None:
        if os.environ.get("QUOD_TEST_NODE") == "required":
            pytest.fail(why)
        pytest.skip(why)
    return run_contracts(jobs)
