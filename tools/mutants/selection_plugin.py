"""A pytest plugin that selects the tests of a mutant and writes their progress.

The plugin selects tests by id from the files that pytest collects, and ignores missing ids. It
appends a JSON line for each step at once, so that the file shows where a process hung or died.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

STEPS = "QUOD_MUTANTS_STEPS"
"""The environment variable with the file to append to."""

TESTS = "QUOD_MUTANTS_TESTS"
"""The environment variable with the file that has the ids, one a line."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the selected tests in the order of their files."""
    wanted = set(Path(os.environ[TESTS]).read_text().splitlines())
    items[:] = [item for item in items if item.nodeid in wanted]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write that a test begins."""
    _append({"test": nodeid, "step": "begin", "time": time.time()})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a phase of a test ended."""
    _append({"test": report.nodeid, "step": report.when, "failed": report.outcome == "failed"})


def _append(row: dict[str, object]) -> None:
    with open(os.environ[STEPS], "a") as file:
        file.write(json.dumps(row) + "\n")
