"""A pytest plugin that writes which candidates each test runs, its outcome and its duration.

`tools.mutants record` loads it. Each process appends a JSON line to its own file when a test ends.
The lines that a fixture of a class, a module or a session runs count for every test that uses the
fixture, although only the first one sets it up.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import probes

_running: dict[str, Any] = {}
_fixtures: dict[int, str] = {}
"""The key of each shared fixture that was set up last, by the identity of its definition."""
_numbers = itertools.count()


def pytest_sessionstart() -> None:
    """Keep what the probes of this process note."""
    probes.keep()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write a line for the test when it ends."""
    _running.clear()
    _running.update(test=item.nodeid, outcome="passed", seconds=0.0)
    probes.seen.clear()
    os.environ[probes.OWNER] = item.nodeid
    try:
        return (yield)
    finally:
        del os.environ[probes.OWNER]
        _append({**_running, "lines": sorted(probes.seen), "fixtures": _fixtures_of(item)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add up set-up and call, and keep the worst outcome of all phases."""
    report = yield
    if report.when != "teardown":
        _running["seconds"] = round(_running["seconds"] + call.duration, 4)
    if report.outcome != "passed" and _running["outcome"] != "failed":
        _running["outcome"] = report.outcome
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Write what a shared fixture runs under a key of its own."""
    if fixturedef.scope == "function":
        return (yield)
    key = f"fixture {fixturedef.argname} {os.getpid()} {next(_numbers)}"
    outer, owner = set(probes.seen), os.environ.get(probes.OWNER, "")
    probes.seen.clear()
    os.environ[probes.OWNER] = key
    try:
        return (yield)
    finally:
        _append({"fixture": key, "lines": sorted(probes.seen)})
        _fixtures[id(fixturedef)] = key
        os.environ[probes.OWNER] = owner
        probes.seen.clear()
        probes.seen.update(outer)


def _fixtures_of(item: pytest.Item) -> list[str]:
    definitions = getattr(item, "_fixtureinfo", None)
    if definitions is None:
        return []
    used = [rows[-1] for rows in definitions.name2fixturedefs.values()]
    return [_fixtures[id(row)] for row in used if id(row) in _fixtures]


def _append(row: dict[str, Any]) -> None:
    path = Path(os.environ[probes.FOLDER]) / probes.TESTS / str(os.getpid())
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
