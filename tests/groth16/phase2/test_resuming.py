"""Interrupted setups and verifications of keys resume."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.cli import entry
from quod.errors import DeviceError, InputError, VerificationError
from quod.formats import resumable
from quod.formats.iden3 import Iden3File
from quod.groth16.phase2 import (
    contribute,
    initial_key,
    new_key,
    verify_from_r1cs,
    write_known_powers,
)
from quod.groth16.phase2.lagrange_wires import wire_points
from tests.groth16.phase2.circuits import PTAU_SEED, known_powers, mixed
from tests.support.killed_process import kill_within

WINDOWS = 1 + 4 + 3 * 5
"""Windows of 8 wires: of ic, of c, and of a, b_g1 and b_g2."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A circuit and its powers, and as many parts as there are windows of a few wires."""
    monkeypatch.setattr(resumable, "SECONDS_BETWEEN", -1.0)
    monkeypatch.setattr(resumable, "kept", [])
    monkeypatch.setattr(resumable, "expected", [])
    monkeypatch.setattr(initial_key, "WINDOW", 8)
    monkeypatch.chdir(tmp_path)
    mixed("bn254").write_r1cs(tmp_path / "c.r1cs")
    known_powers(tmp_path, "bn254", 5).rename(tmp_path / "p.ptau")
    return tmp_path


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, BaseException | None], list[int]]:
    """Has the points of a window fail, by its number; gives a list that grows with each made."""
    make = wire_points

    def stopping(last: int, error: BaseException | None) -> list[int]:
        starts: list[int] = []

        def counted(*arguments: Any) -> Iterator[Any]:
            if len(starts) == last and error is not None:
                raise error
            starts.append(arguments[3])
            return make(*arguments)

        monkeypatch.setattr(initial_key, "wire_points", counted)
        return starts

    return stopping


Stop = Callable[[int, BaseException | None], list[int]]


@pytest.mark.thorough
def test_resumes_from_any_window(folder: Path, stop: Stop) -> None:
    starts = stop(-1, None)
    circuit_hash = new_key("c.r1cs", "p.ptau", "whole.zkey")
    assert len(starts) == WINDOWS
    complete = Path("whole.zkey").read_bytes()
    errors = (KeyboardInterrupt(), DeviceError("lost"), SystemExit(143))
    for place in (*range(0, WINDOWS, 3), WINDOWS - 1):
        error = errors[place // 3 % 3]
        stop(place, error)
        said: list[str] = []
        with pytest.raises(type(error)):
            new_key("c.r1cs", "p.ptau", "out.zkey")
        assert not Path("out.zkey").exists()
        remaining = stop(-1, None)
        assert new_key("c.r1cs", "p.ptau", "out.zkey", report=said.append) == circuit_hash
        # Before the first window is made there is nothing to keep.
        assert len(remaining) == WINDOWS - place
        assert (f"interruption; {place} parts are done" in "".join(said)) == (place > 0)
        assert Path("out.zkey").read_bytes() == complete
        assert sorted(os.listdir()) == ["c.r1cs", "out.zkey", "p.ptau", "whole.zkey"]
        Path("out.zkey").unlink()


def test_resumes_after_a_kill(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup = ["groth16", "setup", "c.r1cs", "p.ptau"]
    assert entry.run([*setup, "whole.zkey"]) == 0
    kill_within(
        "from quod.groth16.phase2 import initial_key",
        "initial_key.WINDOW = 8\ninitial_key.new_key(*sys.argv[2:])", 40,
        *(folder / name for name in ("c.r1cs", "p.ptau", "out.zkey")),
    )  # fmt: skip
    assert not Path("out.zkey").exists()
    assert entry.run([*setup, "out.zkey"]) == 0
    assert "resuming after an interruption" in capsys.readouterr().err
    assert Path("out.zkey").read_bytes() == Path("whole.zkey").read_bytes()


def test_other_inputs_start_again(folder: Path, stop: Stop) -> None:
    """Another circuit at the same path, and resume=False."""

    def interrupted() -> None:
        stop(9, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            new_key("c.r1cs", "p.ptau", "out.zkey")

    said: list[str] = []
    interrupted()
    starts = stop(-1, None)
    new_key("c.r1cs", "p.ptau", "out.zkey", resume=False, report=said.append)
    assert (len(starts), said) == (WINDOWS, [])
    Path("out.zkey").unlink()
    interrupted()
    mixed("bn254", 28).write_r1cs(folder / "c.r1cs")
    starts = stop(-1, None)
    new_key("c.r1cs", "p.ptau", "out.zkey", report=said.append)
    assert starts[0] == 0
    assert said == [
        "out.zkey: the partial output of an earlier run is for other inputs; starting again"
    ]
    new_key("c.r1cs", "p.ptau", "whole.zkey")
    assert Path("out.zkey").read_bytes() == Path("whole.zkey").read_bytes()


def test_resumption_identifies_inputs_by_contents(folder: Path, stop: Stop) -> None:
    """Other contents of equal name, size and times start again; copies elsewhere resume."""

    def again(change: Callable[[Path], None], *names: str) -> tuple[int, list[str], bytes]:
        stop(9, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            new_key("c.r1cs", "p.ptau", "out.zkey")
        for name in names:
            change(folder / name)
        said: list[str] = []
        starts = stop(-1, None)
        new_key("c.r1cs", "p.ptau", "out.zkey", report=said.append)
        content = Path("out.zkey").read_bytes()
        Path("out.zkey").unlink()
        return len(starts), said, content

    def copied(path: Path) -> None:
        path.rename("moved")
        path.write_bytes(Path("moved").read_bytes())

    def replaced(path: Path) -> None:
        status = path.stat()
        with path.open("r+b") as file:
            file.write(Path("other").read_bytes())
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    windows, said, first = again(copied, "c.r1cs", "p.ptau")
    assert windows == WINDOWS - 9
    assert said == ["out.zkey: resuming after an interruption; 9 parts are done"]
    write_known_powers("other", "bn254", 5, seed=PTAU_SEED + 1)
    windows, said, second = again(replaced, "p.ptau")
    assert windows == WINDOWS
    assert said == [
        "out.zkey: the partial output of an earlier run is for other inputs; starting again"
    ]
    new_key("c.r1cs", "p.ptau", "whole.zkey")
    assert second == Path("whole.zkey").read_bytes() != first


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [(OSError(errno.ENOSPC, "full"), 5, "(No space left on device); free some"),
     (MemoryError(), 7, "out of memory"), (DeviceError("the device is lost"), 7, "lost; then")],
)  # fmt: skip
def test_command_reports_that_it_can_resume(
    error: BaseException, code: int, words: str, folder: Path, stop: Stop,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    setup = ["groth16", "setup", "c.r1cs", "p.ptau", "out.zkey"]
    stop(3, error)
    assert entry.run(setup) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.endswith("; then run the command again to resume out.zkey\n")
    resumable.kept.clear()
    stop(-1, None)
    assert entry.run(setup) == 0
    assert "3 parts are done" in capsys.readouterr().err


def test_circuit_changed_during_key_generation_is_rejected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = wire_points

    def rewritten(*arguments: Any) -> Any:
        os.utime("c.r1cs", ns=(1, 1))
        return make(*arguments)

    monkeypatch.setattr(initial_key, "wire_points", rewritten)
    with pytest.raises(InputError, match="has changed since it was opened"):
        new_key("c.r1cs", "p.ptau", "out.zkey")
    assert sorted(os.listdir()) == ["c.r1cs", "p.ptau"]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Stop:
    """Has a part of a verification fail by its number, in a cache of its own, points of windows
    among them; gives a list that grows with each part that is looked at."""
    once, make = VerifiedParts.once, wire_points

    def stopping(last: int, error: BaseException | None) -> list[int]:
        looked: list[int] = []
        if error is not None:
            monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))

        def begun() -> None:
            if len(looked) == last and error is not None:
                raise error
            looked.append(len(looked))

        def checked(
            self: VerifiedParts, what: Any, check: Callable[[], None], *arguments: Any
        ) -> None:
            def counted() -> None:
                begun()
                check()

            once(self, what, counted, *arguments)

        def made(*arguments: Any) -> Iterator[Any]:
            begun()
            return make(*arguments)

        monkeypatch.setattr(VerifiedParts, "once", checked)
        monkeypatch.setattr(initial_key, "wire_points", made)
        return looked

    return stopping


def test_verification_resumes_from_any_point(folder: Path, looking: Stop) -> None:
    """By the circuit: the points of c are checked before their division."""
    new_key("c.r1cs", "p.ptau", "0.zkey")
    contribute("0.zkey", "1.zkey")
    all_of_them = looking(-1, None)
    expected = verify_from_r1cs("c.r1cs", "p.ptau", "1.zkey")
    count = len(all_of_them)
    # Points of c and h; windows; parts of c that are divided; h of the powers.
    assert count == 2 + WINDOWS + 4 + 1
    for place in (0, 3, 9, 13, count - 1):
        looking(place, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            verify_from_r1cs("c.r1cs", "p.ptau", "1.zkey")
        said: list[str] = []
        checks = looking(-1, None)
        verified_key = verify_from_r1cs("c.r1cs", "p.ptau", "1.zkey", report=said.append)
        assert verified_key == expected
        of_c = sum(place > window for window in (3, 5, 7, 9))
        assert len(checks) == count - place + of_c
        assert said == (["1.zkey: resuming after an interruption"] if place else [])


def test_verification_by_the_initial_key_resumes(
    folder: Path, looking: Stop, capsys: pytest.CaptureFixture[str]
) -> None:
    new_key("c.r1cs", "p.ptau", "0.zkey")
    contribute("0.zkey", "1.zkey")
    words = ["zkey", "verify", "0.zkey", "p.ptau", "1.zkey"]
    looking(3, KeyboardInterrupt())
    assert entry.run(words) == 130
    assert "run the command again to resume 1.zkey" in capsys.readouterr().err
    checks = looking(-1, None)
    assert entry.run(words) == 0
    assert len(checks) == 1
    assert "resuming after an interruption" in capsys.readouterr().err
    again = looking(-1, None)
    assert entry.run([*words, "--no-resume", "-q"]) == 0
    assert len(again) == 4


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (5, r"section 5 \(a\) differs from the initial key's"),
        (3, r"section 3 \(ic\) differs from the initial key's"),
        (8, "c is not the initial key's c, divided by delta"),
        (9, "h does not match the powers of tau, divided by delta"),
    ],
    ids=["a", "ic", "c", "h"],
)
def test_changed_input_is_verified_again(
    section: int, problem: str, folder: Path, looking: Stop
) -> None:
    """The file keeps its old times, so that only its bytes differ."""
    new_key("c.r1cs", "p.ptau", "0.zkey")
    contribute("0.zkey", "1.zkey")
    looking(WINDOWS + 6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verify_from_r1cs("c.r1cs", "p.ptau", "1.zkey")
    looking(-1, None)
    status, data = os.stat("1.zkey"), bytearray(Path("1.zkey").read_bytes())
    start = Iden3File.open("1.zkey", "zkey", 1).sections[section].offset
    data[start : start + 128] = data[start + 64 : start + 128] + data[start : start + 64]
    with open("1.zkey", "r+b") as file:
        file.write(data)
    os.utime("1.zkey", ns=(status.st_atime_ns, status.st_mtime_ns))
    said: list[str] = []
    with pytest.raises(VerificationError, match=f"^1.zkey: {problem}"):
        verify_from_r1cs("c.r1cs", "p.ptau", "1.zkey", report=said.append)
    assert said == ["1.zkey: resuming after an interruption"]
