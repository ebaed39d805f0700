"""Contracts in an Ethereum VM, for tests: skipped where node or its packages are missing."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quod.bench.peers import evm
from quod.bench.peers.evm import Job
from tests.support.node import REPOSITORY
from tests.support.remembered import result_of


def run(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """See `run_contracts`; with QUOD_TEST_NODE=required what is missing is a failure.

    The results are kept for contracts, calls and packages that are the same.
    """
    why = evm.why_no_evm()
    if why is not None:
        if os.environ.get("QUOD_TEST_NODE") == "required":
            pytest.fail(why)
        pytest.skip(why)
    module = Path(evm.__file__)
    driver = module.read_bytes() + module.with_name("evm.mjs").read_bytes()
    packages = (REPOSITORY / "tools" / "setup.sh").read_bytes()
    results: list[dict[str, Any]] = json.loads(
        result_of(
            driver, packages, json.dumps(jobs), compute=lambda: json.dumps(evm.run_contracts(jobs))
        )
    )
    return results
