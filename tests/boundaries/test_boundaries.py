"""Invalid values are rejected wherever foreign data enters: files, clients, pointers, proofs.

Each argument of each row in turn is each of `WRONG`: without its validator, a call would raise an
error of Python's, accept the value, or give native code an address or a length that is none.
Objects of Quod's own classes stay: `mypy --strict` holds them, and memory alone is foreign.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quod.errors import QuodError
from tests.boundaries import devices, filecoin, files, proofs, services, tensors, verifiers
from tests.boundaries.row import WRONG, is_foreign

TABLES = (devices, filecoin, files, proofs, services, tensors, verifiers)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken for a folder's makes none in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("table", TABLES, ids=[table.__name__ for table in TABLES])
def test_invalid_values_are_rejected(table: ModuleType) -> None:
    # The rows hold proofs, which are not computed before the test runs.
    for name, (call, right, accepts) in table.rows():
        assert accepts.keys() <= right.keys()
        foreign = [argument for argument, value in right.items() if is_foreign(value)]
        assert foreign, f"the row {name} tests nothing"
        for argument in foreign:
            for kind, value in WRONG.items():
                if kind not in accepts.get(argument, ""):
                    changed = f"{name}: {argument} is {kind}"
                    assert "\n" not in refusal(call, right | {argument: value}, changed), changed


def refusal(call: Callable[..., object], arguments: dict[str, Any], changed: str) -> str:
    """The message with which a call refuses its arguments."""
    try:
        call(**arguments)
    except QuodError as error:
        return str(error)
    except Exception as error:
        error.add_note(changed)
        raise
    pytest.fail(f"{changed}: accepted")
