"""Interrupted creation, preparation and verification of powers resume."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.ceremony import contribute, new_powers, verify, windows
from quod.ceremony.powers import initial_powers as new
from quod.ceremony.powers import verified_parts
from quod.ceremony.powers.ptau_layout import PtauWriter
from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.cli import entry
from quod.device.cache.cache import CompileCache
from quod.errors import DeviceError, InputError, VerificationError
from quod.formats import resumable
from quod.formats.iden3 import Iden3File
from tests.ceremony.ceremonies import PTAU
from tests.support.killed_process import kill_within


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All is kept, a few points at a time."""
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", -1.0)
    monkeypatch.setattr(resumable, "kept", [])
    monkeypatch.setattr(resumable, "expected", [])
    monkeypatch.setattr(windows, "MAX_BYTES", 1 << 9)
    monkeypatch.setattr(windows, "_WINDOWS_PER_BLOCK", 2)
    monkeypatch.chdir(tmp_path)


def test_new_powers_resume_from_any_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """2**4 of them, 31 + 16 + 16 + 1 points of 64 bytes and 16 of twice as many: 13 windows."""
    write, count = PtauWriter.write_at, 13
    written: list[int] = []

    def stopping(stop: int) -> None:
        written.clear()

        def counted(self: PtauWriter, section: int, *arguments: Any) -> None:
            if len(written) == stop:
                raise KeyboardInterrupt
            written.append(section)
            write(self, section, *arguments)

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
        assert (f"{place} parts are done" in "".join(said)) == (place > 0)
        assert Path("out.ptau").read_bytes() == Path("whole.ptau").read_bytes()
        assert sorted(os.listdir()) == ["out.ptau", "whole.ptau"]
        Path("out.ptau").unlink()
    stopping(5)
    with pytest.raises(KeyboardInterrupt):
        new_powers("bn254", 4, "out.ptau")
    stopping(-1)
    new_powers("bn254", 3, "out.ptau", report=said.append)
    assert (
        said[-1]
        == "out.ptau: the partial output of an earlier run is for other inputs; starting again"
    )


def test_new_powers_resume_after_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kill_within(
        "from quod.ceremony import new_powers, windows",
        "windows.MAX_BYTES = 512\nnew_powers('bn254', 4, sys.argv[2])", 20, tmp_path / "out.ptau",
    )  # fmt: skip
    new = ["powersoftau", "new", "bn254", "4"]
    assert entry.run([*new, "out.ptau"]) == 0
    assert "resuming after an interruption" in capsys.readouterr().err
    assert entry.run([*new, "whole.ptau", "--no-resume", "-q"]) == 0
    assert Path("out.ptau").read_bytes() == Path("whole.ptau").read_bytes()


def test_interrupted_before_the_first_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The partial output of an earlier run is still there, and the message says so."""
    words = ["powersoftau", "new", "bn254", "4", "out.ptau"]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(new, "first_challenge", interrupt)
        assert entry.run(words) == 130
        assert "no partial file is left" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(new, "contributions_data", interrupt)
        assert entry.run(words) == 130
        assert "run the command again to resume out.ptau" in capsys.readouterr().err
        resumable.kept.clear()
        patch.setattr(new, "first_challenge", interrupt)
        assert entry.run(words) == 130
        assert "run the command again to resume out.ptau" in capsys.readouterr().err
    assert entry.run(words) == 0
    assert "13 parts are done" in capsys.readouterr().err


def test_resumption_identifies_input_by_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another ceremony with equal name, size and times starts again."""
    for power in (2, 3):
        new_powers("bn254", 3, f"{power}.ptau")
        contribute(f"{power}.ptau", "c.ptau")
        Path("c.ptau").rename(f"{power}.ptau")
    Path("2.ptau").rename("in.ptau")
    words = ["powersoftau", "prepare", "in.ptau", "out.ptau"]
    finish, done = resumable.Parts.finish, []

    def finished(self: resumable.Parts, at: int, length: int) -> None:
        finish(self, at, length)
        done.append(at)
        if len(done) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(resumable.Parts, "finish", finished)
        assert entry.run(words) == 130
    status = os.stat("in.ptau")
    with open("in.ptau", "r+b") as file:
        file.write(Path("3.ptau").read_bytes())
    os.utime("in.ptau", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert entry.run(words) == 0
    assert "for other inputs; starting again" in capsys.readouterr().err
    assert entry.run(["powersoftau", "prepare", "3.ptau", "whole.ptau"]) == 0
    assert Path("out.ptau").read_bytes() == Path("whole.ptau").read_bytes()


Stopping = Callable[..., list[str]]


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Stopping:
    """Has a part of a verification fail by its number, in a cache of its own; gives a growing list
    of those looked at."""
    once = VerifiedParts.once
    monkeypatch.setattr(windows, "MAX_BYTES", 1 << 11)

    def stop(last: int = -1, error: BaseException | None = None) -> list[str]:
        looked: list[str] = []
        if error is not None:
            monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))

        def counted(
            self: VerifiedParts, what: str, check: Callable[[], None], *arguments: Any
        ) -> None:
            def looking() -> None:
                if len(looked) == last and error is not None:
                    raise error
                looked.append(what)
                check()

            once(self, what, looking, *arguments)

        monkeypatch.setattr(VerifiedParts, "once", counted)
        return looked

    return stop


def _copy(target: Path) -> Path:
    target.write_bytes(PTAU["bn254"].read_bytes())
    return target


@pytest.mark.thorough
def test_verification_resumes_from_any_point(tmp_path: Path, stopping: Stopping) -> None:
    """Prepared files too; a completed verification leaves no progress."""
    source, path = str(_copy(tmp_path / "one.ptau")), "ready.ptau"
    assert entry.run(["powersoftau", "prepare", source, path, "-q"]) == 0
    all_of_them = stopping()
    expected = verify(path)
    assert len({*all_of_them}) == 2 + 2 + 1 + 2 + 4
    ends = {what: place for place, what in enumerate(all_of_them)}
    for place in (0, *list(ends.values())[1::4], len(all_of_them) - 1):
        error = DeviceError("lost") if place % 2 else KeyboardInterrupt()
        before = stopping(place, error)
        resumable.kept.clear()
        with pytest.raises(type(error)):
            verify(path)
        assert before == all_of_them[:place]
        assert resumable.kept == ([path] if place else [])
        said: list[str] = []
        remaining = stopping()
        assert verify(path, report=said.append) == expected
        assert remaining == all_of_them[place:]
        assert said == ([f"{path}: resuming after an interruption"] if place else [])
    again = stopping()
    verify(path, report=said.append)
    assert again == all_of_them


def test_resume_false_verifies_everything_again(tmp_path: Path, stopping: Stopping) -> None:
    path = _copy(tmp_path / "c.ptau")
    stopping(6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verify(path)
    said: list[str] = []
    looked = stopping()
    verify(path, resume=False, report=said.append)
    assert (len(looked) > 6, said) == (True, [])
    wrong: Any = "no"
    with pytest.raises(InputError, match="resume must be True or False, not 'no'"):
        verify(path, resume=wrong)
    with pytest.raises(InputError, match="report is a function"):
        verify(path, report=wrong)


@pytest.mark.parametrize(
    ("section", "at", "change", "error", "message"),
    [
        (2, 3 * 64, "off", InputError, "point 3 of tau_g1 is not on the curve"),
        (2, 3 * 64, "swap", VerificationError, "tau_g1: its points are not powers of the tau"),
        (4, 2 * 64, "swap", VerificationError, "alpha_tau_g1: its points are not powers"),
    ],
)
def test_changed_input_is_verified_again(
    section: int, at: int, change: str, error: type[Exception], message: str, tmp_path: Path,
    stopping: Stopping,
) -> None:  # fmt: skip
    """The file keeps its old times, so that only its bytes differ."""
    path = _copy(tmp_path / "c.ptau")
    looked = stopping()
    verify(path)
    stopping(len(looked) - 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verify(path)
    status, data = path.stat(), bytearray(path.read_bytes())
    start = Iden3File.open(path, "ptau", 1).sections[section].offset + at
    if change == "off":
        data[start] ^= 1
    else:
        data[start : start + 128] = data[start + 64 : start + 128] + data[start : start + 64]
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    stopping()
    said: list[str] = []
    with pytest.raises(error, match=message):
        verify(path, report=said.append)
    assert said == [f"{path}: resuming after an interruption"]


def test_change_after_verification_is_not_recorded_as_valid(
    tmp_path: Path, stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is of the later content, which no run has verified."""
    path, good = _copy(tmp_path / "c.ptau"), PTAU["bn254"].read_bytes()
    start = Iden3File.open(path, "ptau", 1).sections[2].offset
    looked = stopping()
    verify(path)
    stopping(len(looked), KeyboardInterrupt())
    add = VerifiedParts.add

    def added(self: VerifiedParts, what: str, *arrays: Any) -> None:
        if what == "points in bn254.g1":
            bad = bytearray(good)
            bad[start + 3 * 64] ^= 1
            with path.open("r+b") as file:
                file.write(bad)
        add(self, what, *arrays)

    monkeypatch.setattr(VerifiedParts, "add", added)
    with pytest.raises(InputError, match="has changed since it was opened"):
        verify(path)
    monkeypatch.setattr(VerifiedParts, "add", add)
    for _ in range(3):
        with pytest.raises(InputError, match="point 3 of tau_g1 is not on the curve"):
            verify(path)


def test_recopied_file_counts_as_the_same(tmp_path: Path, stopping: Stopping) -> None:
    path = _copy(tmp_path / "c.ptau")
    before = stopping(6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verify(path)
    assert len(before) == 6
    path.rename(tmp_path / "moved")
    _copy(path)
    all_of_them = stopping()
    said: list[str] = []
    verify(path, report=said.append)
    assert said == [f"{path}: resuming after an interruption"]
    checked = len(all_of_them)
    verify(path)
    assert len(all_of_them) - checked == 6 + checked


def test_short_verifications_record_no_progress(
    tmp_path: Path, stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", 1e9)
    path = _copy(tmp_path / "c.ptau")
    stopping(6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verify(path)
    assert resumable.kept == []
    said: list[str] = []
    looked = stopping()
    verify(path, report=said.append)
    assert (len(looked) > 6, said) == (True, [])


@pytest.mark.filterwarnings("ignore:compiled kernels cannot be kept")
def test_no_resumption_is_promised_without_a_cache(
    tmp_path: Path, stopping: Stopping, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = _copy(tmp_path / "c.ptau")
    stopping(6, KeyboardInterrupt())
    # A file, in which nothing can be kept.
    monkeypatch.setattr(verified_parts, "CompileCache", lambda: CompileCache(path))
    assert entry.run(["powersoftau", "verify", str(path)]) == 130
    assert "no partial file is left" in capsys.readouterr().err
    looked = stopping()
    assert entry.run(["powersoftau", "verify", str(path)]) == 0
    assert "going on" not in capsys.readouterr().err
    assert len(looked) > 6


def test_command_resumes_verification(
    tmp_path: Path, stopping: Stopping, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(_copy(tmp_path / "c.ptau"))
    stopping(6, KeyboardInterrupt())
    assert entry.run(["powersoftau", "verify", path]) == 130
    assert f"run the command again to resume {path}" in capsys.readouterr().err
    stopping()
    assert entry.run(["powersoftau", "verify", path]) == 0
    output = capsys.readouterr()
    assert "resuming after an interruption" in output.err
    assert "OK: 2**" in output.out
    assert entry.run(["powersoftau", "verify", path, "--no-resume", "-q"]) == 0
