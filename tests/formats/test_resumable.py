"""Results in parts that a killed run leaves: only what is whole and the same counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quod.errors import DeviceError, InputError, OutputError
from quod.formats import resumable
from quod.formats.resumable import Parts, write_resumably

SIZES = [10, 0, 300, 7]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", -1.0)
    monkeypatch.setattr(resumable, "kept", [])


def _run(
    path: Path, *, stop: int = 9, error: BaseException | None = None, identity: str = "a",
    resume: bool = True,
) -> tuple[list[int], list[str]]:  # fmt: skip
    """Writes parts; which were made, and what was said."""
    made: list[int] = []
    said: list[str] = []

    def write(parts: Parts) -> None:
        at = 0
        for number, size in enumerate(SIZES):
            if not parts.is_done(at, size):
                if number == stop:
                    assert error is not None
                    raise error
                parts.file.seek(at)
                parts.file.write(bytes([number + 1]) * size)
                made.append(number)
                parts.finish(at, size)
            at += size

    try:
        write_resumably(path, identity, write, resume=resume, report=said.append)
    except BaseException as raised:
        if raised is not error:
            raise
    return made, said


WHOLE = b"".join(bytes([number + 1]) * size for number, size in enumerate(SIZES))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), DeviceError("lost")])
def test_goes_on_after_an_interruption(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o640)
    assert _run(path, stop=2, error=error) == ([0, 1], [])
    assert path.read_bytes() == b"old"
    assert resumable.kept == [str(path)]
    made, said = _run(path)
    assert made == [2, 3]
    assert said == [f"{path}: going on after an interruption; 2 parts are there"]
    assert path.read_bytes() == WHOLE
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_wrong_input_leaves_nothing(tmp_path: Path) -> None:
    _run(tmp_path / "out", stop=2, error=InputError("wrong"))
    assert os.listdir(tmp_path) == []
    assert resumable.kept == []


def test_short_work_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", 1e9)
    _run(tmp_path / "out", stop=2, error=KeyboardInterrupt())
    assert os.listdir(tmp_path) == []


def test_other_inputs_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _run(path, stop=3, error=KeyboardInterrupt())
    made, said = _run(path, identity="b")
    assert made == [0, 1, 2, 3]
    assert said == [f"{path}: what an earlier run left is of other inputs; begun anew"]
    _run(path, stop=3, error=KeyboardInterrupt())
    assert _run(path, resume=False) == ([0, 1, 2, 3], [])
    assert os.listdir(tmp_path) == ["out"]


def test_damaged_parts_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _run(path, stop=3, error=KeyboardInterrupt())
    part, journal = tmp_path / ".out.quod-part", tmp_path / ".out.quod-journal"
    data = bytearray(part.read_bytes())
    data[200] ^= 1
    part.write_bytes(data)
    with journal.open("ab") as file:
        # What no run writes, and a line that was cut off.
        file.write(b'{"at": -1, "length": 1, "blake2b": ""}\n[1]\n{"at": 310, "length": 7}\n\xff\n')
        file.write(json.dumps({"at": 310, "length": 7, "blake2b": "00"}).encode() + b"\n")
        file.write(b'{"at": 310, "length"')
    assert _run(path)[0] == [2, 3]
    assert path.read_bytes() == WHOLE


def test_files_of_others_are_not_trusted(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / ".out.quod-journal").symlink_to(elsewhere)
    os.link(elsewhere, tmp_path / ".out.quod-part")
    assert _run(path)[0] == [0, 1, 2, 3]
    (tmp_path / ".out.quod-part").symlink_to(elsewhere)
    with pytest.raises(OutputError):
        _run(path)
    assert elsewhere.read_bytes() == b"precious"
    assert path.read_bytes() == WHOLE


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write(parts: Parts) -> None:
        with pytest.raises(OutputError, match="another process is writing it"):
            _run(path)
        parts.file.write(b"mine")

    write_resumably(path, "a", write)
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["out"]
