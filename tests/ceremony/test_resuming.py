"""New powers and verifications that are interrupted go on where they were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from quod.ceremony import new_powers, windows
from quod.ceremony.ptau_layout import PtauWriter
from quod.cli import entry
from quod.formats import resumable
from tests.support.killed import kill_within


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All is kept, a few points at a time."""
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", -1.0)
    monkeypatch.setattr(resumable, "kept", [])
    monkeypatch.setattr(windows, "MOST_BYTES", 1 << 9)
    monkeypatch.chdir(tmp_path)


def test_new_powers_go_on_wherever_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """2**4 of them, 31 + 16 + 16 + 1 points of 64 bytes and 16 of twice as many: 13 windows."""
    write, count = PtauWriter.write_at, 13
    written: list[int] = []

    def stopping(stop: int) -> None:
        written.clear()

        def counted(self: PtauWriter, section: int, *more: Any) -> None:
            if len(written) == stop:
                raise KeyboardInterrupt
            written.append(section)
            write(self, section, *more)

        monkeypatch.setattr(PtauWriter, "write_at", counted)

    stopping(-1)
    challenge = new_powers("bn254", 4, "whole.ptau")
    assert len(written) == count
    for place in range(count):
        stopping(place)
        with pytest.raises(KeyboardInterrupt):
            new_powers("bn254", 4, "out.ptau")
        assert not Path("out.ptau").exists()
        stopping(-1)
        said: list[str] = []
        assert new_powers("bn254", 4, "out.ptau", report=said.append) == challenge
        assert len(written) == count - place
        assert (f"{place} parts are there" in "".join(said)) == (place > 0)
        assert Path("out.ptau").read_bytes() == Path("whole.ptau").read_bytes()
        assert sorted(os.listdir()) == ["out.ptau", "whole.ptau"]
        Path("out.ptau").unlink()
    stopping(5)
    with pytest.raises(KeyboardInterrupt):
        new_powers("bn254", 4, "out.ptau")
    stopping(-1)
    new_powers("bn254", 3, "out.ptau", report=said.append)
    assert said[-1] == "out.ptau: what an earlier run left is of other inputs; begun anew"


def test_new_powers_go_on_after_being_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_within(
        "from quod.ceremony import new_powers, windows",
        "windows.MOST_BYTES = 512\nnew_powers('bn254', 4, sys.argv[2])", 20, tmp_path / "out.ptau",
    )  # fmt: skip
    new = ["powersoftau", "new", "bn254", "4"]
    assert entry.run([*new, "out.ptau"]) == 0
    assert "going on after an interruption" in capsys.readouterr().err
    assert entry.run([*new, "whole.ptau", "--no-resume", "-q"]) == 0
    assert Path("out.ptau").read_bytes() == Path("whole.ptau").read_bytes()
