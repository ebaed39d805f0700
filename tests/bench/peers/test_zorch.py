"""zorch as a peer: missing installations, unsupported sumchecks, and a stand-in process."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.bench.peers.zorch import Zorch, find_zorch, why_not
from quod.errors import QuodError
from quod.field import EXTENSIONS, NAMED

FIELD = NAMED["goldilocks"]


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Makes a script the interpreter of zorch."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("QUOD_ZORCH_PYTHON", str(script))


def test_missing_zorch_reports_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOD_ZORCH_PYTHON", str(tmp_path / "absent"))
    assert find_zorch() is None
    assert "pyzorch" in (why_not(FIELD, 2, 1, weighted=False) or "")
    stand_in(tmp_path, monkeypatch, "true")
    assert why_not(FIELD, 2, 1, weighted=False) is None
    assert "m31.4" in (why_not(EXTENSIONS["m31.4"], 2, 1, weighted=False) or "")
    for factors, batch, weighted in ((3, 1, False), (2, 2, False), (2, 1, True)):
        assert why_not(FIELD, factors, batch, weighted=weighted) is not None


def test_zorch_reports_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo ready; while read line; do echo 0.25; done")
    peer = Zorch(FIELD, 4)
    assert [peer(), peer()] == [0.25, 0.25]
    peer.close()


def test_zorch_errors_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo no such field >&2; exit 1")
    with pytest.raises(QuodError, match="no such field"):
        Zorch(FIELD, 4)()
