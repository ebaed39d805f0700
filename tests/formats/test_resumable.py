"""Partial results of a killed run: only complete chunks of equal inputs are reused."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quod.errors import DeviceError, InputError, OutputError
from quod.formats import resumable
from quod.formats.resumable import Inputs, Parts, write_resumably

SIZES = [10, 0, 300, 7]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", -1.0)
    monkeypatch.setattr(resumable, "kept", [])
    monkeypatch.setattr(resumable, "expected", [])


def _run(
    path: Path, *, stop: int = 9, error: BaseException | None = None, identity: str = "a",
    resume: bool = True, check: Callable[[], None] = lambda: None, replace: bool = True,
) -> tuple[list[int], list[str]]:  # fmt: skip
    """Writes parts; which were made, and what was said."""
    numbers: list[int] = []
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
                numbers.append(number)
                parts.finish(at, size)
            at += size
        parts.file.seek(at)

    inputs = Inputs(lambda: identity, check)
    try:
        write_resumably(path, inputs, write, resume=resume, report=said.append, replace=replace)
    except BaseException as raised:
        if error is None or error not in (raised, raised.__cause__):
            raise
    return numbers, said


WHOLE = b"".join(bytes([number + 1]) * size for number, size in enumerate(SIZES))


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(143), DeviceError("lost"), MemoryError(),
     OSError(errno.ENOSPC, "full"), OutputError("elsewhere")],
)  # fmt: skip
def test_resumes_after_an_interruption(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o440)
    assert _run(path, stop=2, error=error) == ([0, 1], [])
    # Their owner can open it again, whatever the target is.
    assert (tmp_path / ".out.quod-part").stat().st_mode & 0o777 == 0o640
    assert path.read_bytes() == b"old"
    assert resumable.kept == [str(path)]
    written, said = _run(path)
    assert written == [2, 3]
    assert said == [f"{path}: resuming after an interruption; 2 parts are done"]
    assert path.read_bytes() == WHOLE
    assert path.stat().st_mode & 0o777 == 0o440
    assert os.listdir(tmp_path) == ["out"]


def test_input_error_leaves_no_partial_file(tmp_path: Path) -> None:
    _run(tmp_path / "out", stop=2, error=InputError("wrong"))
    assert os.listdir(tmp_path) == []
    assert resumable.kept == []


def test_short_work_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", 1e9)
    _run(tmp_path / "out", stop=2, error=KeyboardInterrupt())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "wrong",
    [{"resume": "no"}, {"resume": 0}, {"resume": None}, {"report": None}, {"report": 1}],
)
def test_invalid_arguments_write_no_file(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"resume must be True or False|report is a function"):
        write_resumably(tmp_path / "out", Inputs(lambda: "a"), lambda parts: None, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_other_inputs_start_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _run(path, stop=3, error=KeyboardInterrupt())
    written, said = _run(path, identity="b")
    assert written == [0, 1, 2, 3]
    assert said == [
        f"{path}: the partial output of an earlier run is for other inputs; starting again"
    ]
    _run(path, stop=3, error=KeyboardInterrupt())
    assert _run(path, resume=False) == ([0, 1, 2, 3], [])
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    """From the start, and if it appears while parts are made, which stay for `replace`."""
    path, appeared = tmp_path / "out", []
    path.write_bytes(b"theirs")
    with pytest.raises(OutputError, match="already exists"):
        _run(path, replace=False)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["out"], b"theirs")
    path.unlink()

    def check() -> None:
        if not appeared:
            path.write_bytes(b"theirs")
        appeared.append(0)

    with pytest.raises(OutputError, match="already exists"):
        _run(path, check=check, replace=False)
    assert path.read_bytes() == b"theirs"
    written, said = _run(path)
    assert written == []
    assert said == [f"{path}: resuming after an interruption; 4 parts are done"]
    assert (os.listdir(tmp_path), path.read_bytes()) == (["out"], WHOLE)
    path.unlink()
    _run(path, replace=False)
    assert path.read_bytes() == WHOLE


def test_damaged_chunks_are_written_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    # As other libraries do: a parser that goes by it would leave the stack.
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(10**6)
    path = tmp_path / "out"
    _run(path, stop=3, error=KeyboardInterrupt())
    part, journal = tmp_path / ".out.quod-part", tmp_path / ".out.quod-journal"
    data = bytearray(part.read_bytes())
    data[200] ^= 1
    # What follows was part of no result.
    part.write_bytes(data + bytes(500))
    with journal.open("ab") as file:
        file.write(b"[" * 100_000 + b"\n")
        # What no run writes, and a line that was cut off.
        file.write(b'{"at": -1, "length": 1, "blake2b": ""}\n[1]\n{"at": 310, "length": 7}\n\xff\n')
        file.write(json.dumps({"at": 310, "length": 7, "blake2b": "00"}).encode() + b"\n")
        file.write(b'{"at": 310, "length"')
    # Lines behind one that was cut off are whole.
    assert _run(path, stop=3, error=KeyboardInterrupt())[0] == [2]
    assert _run(path)[0] == [3]
    assert path.read_bytes() == WHOLE


def test_changed_inputs_leave_no_partial_file(tmp_path: Path) -> None:
    """Chunks from before and after the change cannot be distinguished."""
    path, error = tmp_path / "out", InputError("has changed")
    changed: list[int] = []

    def check() -> None:
        changed.append(0)
        if len(changed) == 3:
            raise error

    assert _run(path, error=error, check=check)[0] == [0, 1, 2]
    assert os.listdir(tmp_path) == []
    assert _run(path)[0] == [0, 1, 2, 3]


def test_input_identity_is_computed_only_when_progress_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never() -> str:
        raise AssertionError

    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", 1e9)

    def write(parts: Parts) -> None:
        parts.file.write(b"short")
        parts.finish(0, 5)

    write_resumably(tmp_path / "out", Inputs(never), write)
    assert (tmp_path / "out").read_bytes() == b"short"


def test_partial_output_of_an_earlier_run_counts_as_resumable(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(path)
    for name in (path, link, tmp_path / "none" / "out", "/dev/stdout", "nul\0"):
        resumable.expect(name)
    assert resumable.resumable_targets() == []
    _run(path, stop=2, error=KeyboardInterrupt())
    resumable.kept.clear()
    assert resumable.resumable_targets() == [str(path), str(link)]
    _run(path)
    assert resumable.resumable_targets() == []


def test_links_and_foreign_files_are_not_trusted(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / ".out.quod-journal").symlink_to(elsewhere)
    os.link(elsewhere, tmp_path / ".out.quod-part")
    assert _run(path)[0] == [0, 1, 2, 3]
    part, journal = (tmp_path / f".out.quod-{name}" for name in ("part", "journal"))
    part.symlink_to(elsewhere)
    with pytest.raises(OutputError, match=f"{part} is in the way"):
        _run(path)
    part.unlink()
    for place in (part, journal):
        place.mkdir()
        with pytest.raises(OutputError, match=f"{place} is in the way"):
            _run(path)
        place.rmdir()
        # Nobody writes to it.
        os.mkfifo(place)
        assert _run(path)[0] == [0, 1, 2, 3]
    assert elsewhere.read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "out"]
    assert path.read_bytes() == WHOLE


def test_concurrent_processes_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write(parts: Parts) -> None:
        with pytest.raises(OutputError, match="another process is writing this file"):
            _run(path)
        parts.file.write(b"mine")

    write_resumably(path, Inputs(lambda: "a"), write)
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["out"]
