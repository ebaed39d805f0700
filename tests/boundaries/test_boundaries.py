"""Invalid values are rejected wherever foreign data enters: files, clients, pointers, proofs.

Each argument of each row in turn is each of `WRONG`: without its validator, a call would raise an
error of Python's, accept the value, or give native code an address or a length that is none.
Objects of Quod's own classes stay: `mypy --strict` holds them, and memory alone is foreign.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.errors import QuodError
from tests.boundaries import devices, files, proofs, services, tensors, verifiers
from tests.boundaries.row import WRONG, is_foreign

TABLE = {
    f"{table.__name__.rpartition('.')[2]}, {name}": row
    for table in (devices, files, proofs, services, tensors, verifiers)
    for name, row in table.rows()
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken for a folder's makes none in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", TABLE)
def test_invalid_values_are_rejected(name: str) -> None:
    call, right, accepts = TABLE[name]
    assert accepts.keys() <= right.keys()
    foreign = [argument for argument, value in right.items() if is_foreign(value)]
    assert foreign, "the row tests nothing"
    for argument in foreign:
        for kind, value in WRONG.items():
            if kind in accepts.get(argument, ""):
                continue
            with pytest.raises(QuodError) as refused:
                call(**right | {argument: value})
            assert "\n" not in str(refused.value), (argument, kind)
