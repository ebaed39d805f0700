"""The helper's own process: full disks, short memory, and failures that may be the helper's."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from quod.errors import DeviceError
from quod.formats.source import read_file
from quod.groth16 import ProvingKey
from quod.resident import commands, keys
from quod.resident.commands import CommandRunner, Declined, memory_bound
from quod.resident.frames import Request
from quod.resident.output import Output
from tests.resident.conftest import Folder

WORDS = ["groth16", "prove", "circuit.zkey", "witness.wtns", "proof.json", "public.json"]


@pytest.fixture
def runner(folder: Folder) -> Iterator[CommandRunner]:
    before, umask = os.getcwd(), os.umask(0o22)
    runner = CommandRunner()
    yield runner
    runner.keys.close()
    os.chdir(before)
    os.umask(umask)


def run(runner: CommandRunner, folder: Folder, *words: str) -> tuple[int, str]:
    """Run a command; return its exit code and its text."""
    output = Output()
    request = Request(words or WORDS, str(folder.path), 0o22, [])
    code = runner.run(request, output)
    return code, b"".join(frame[5:] for frame in output.take_frames()).decode()


def decline(runner: CommandRunner, folder: Folder, *words: str) -> str:
    """The reason for which a command is declined."""
    with pytest.raises(Declined) as declined:
        run(runner, folder, *words)
    return str(declined.value)


def test_a_full_disk_is_an_error_of_the_output(
    runner: CommandRunner, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    code, text = run(runner, folder)
    assert code == 5
    assert text.endswith(
        "quod: error: proof.json: could not be written (No space left on device); free some space "
        "or write to another disk\n"
    )
    assert not list(folder.path.glob(".quod-*"))
    monkeypatch.undo()
    assert run(runner, folder)[0] == 0


def test_keys_are_kept_within_the_bound(
    folder: Folder, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    from_zkey = ProvingKey.from_zkey

    def count(path: object, **options: object) -> ProvingKey:
        opened.append(path)
        return from_zkey(path, **options)

    monkeypatch.setattr(ProvingKey, "from_zkey", count)
    names = ["circuit.zkey", "second.zkey", "third.zkey"]
    for name in names[1:]:
        (folder.path / name).write_bytes((folder.path / "circuit.zkey").read_bytes())
    assert run(runner, folder)[0] == 0
    assert len(runner.keys.describe()) == 1
    assert opened == []
    # Enough for two keys.
    (use,) = runner.keys._cache.status().keys
    runner.keys = keys.HelperKeys(5 * use.host_bytes)
    for name in [*names, *names]:
        code, _ = run(runner, folder, *WORDS[:2], name, *WORDS[3:])
        assert code == 0
        used = sum(use.host_bytes for use in runner.keys._cache.status().keys)
        assert used <= 5 * use.host_bytes
    # None fits: each is opened for its command, and closed.
    runner.keys.close()
    runner.keys = keys.HelperKeys(1000)
    assert run(runner, folder)[0] == 0
    assert opened
    assert runner.keys.describe() == []


def test_short_memory_frees_the_keys_and_leaves_the_command_to_the_client(
    folder: Folder, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(runner, folder)[0] == 0
    assert runner.keys.describe()
    monkeypatch.setattr(keys, "available_memory_bytes", lambda: 1000)
    reason = decline(runner, folder)
    assert "could not run the command (error: a proof needs" in reason
    assert runner.keys.describe() == []
    # A key is not loaded into the last memory.
    code, _ = run(runner, folder)
    assert code == 0
    assert runner.keys.describe() == []


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("surprise")])
def test_failures_are_left_to_the_client(
    error: Exception, folder: Folder, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(ProvingKey, "prove", fail)
        assert "could not run the command" in decline(runner, folder)
    assert runner.keys.describe() == []
    assert run(runner, folder)[0] == 0


def test_memory_that_ends_while_a_key_is_loaded(
    folder: Folder, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(keys.KeyFiles, "read_zkey", fail)
        assert run(runner, folder)[0] == 0
    assert runner.keys.describe() == []
    assert run(runner, folder)[0] == 0
    assert runner.keys.describe()


def test_messages_name_the_key_as_the_command_does(folder: Folder, runner: CommandRunner) -> None:
    (folder.path / "damaged.wtns").write_bytes((folder.path / "witness.wtns").read_bytes()[:-32])
    for zkey in ("circuit.zkey", str(folder.path / "circuit.zkey"), "./run/../circuit.zkey"):
        assert run(runner, folder, *WORDS[:2], zkey, *WORDS[3:])[0] == 0
        key = runner.keys.open(folder.path / "circuit.zkey", "cpu", None)
        runner.keys.end_command()
        assert key.zkey.path == str(folder.path / "circuit.zkey")
    assert len(runner.keys.describe()) == 1


def test_a_key_that_changes_while_it_is_opened_is_not_kept(
    folder: Folder, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_and_read(path: str, check: object) -> memoryview:
        content = read_file(path, check)
        os.utime(path)
        return content

    monkeypatch.setattr("quod.resident.keys.read_file", replace_and_read)
    assert run(runner, folder)[0] == 0
    assert runner.keys.describe() == []


@pytest.mark.parametrize(
    "words",
    [
        ["devices"], ["groth16"], ["groth16", "setup"], [*WORDS, "--help"], [*WORDS, "--seed"],
        [*WORDS, "--", "x"], [*WORDS[:-1], "proof.json"], [*WORDS[:-1], "/dev/fd/3"],
        [*WORDS[:-1], "/dev/null"], ["prove", *WORDS[2:]],
    ],
)  # fmt: skip
def test_other_command_lines_are_declined_without_a_warning(
    words: list[str], folder: Folder, runner: CommandRunner
) -> None:
    assert decline(runner, folder, *words) == ""


def test_a_folder_that_has_gone_is_declined(folder: Folder, runner: CommandRunner) -> None:
    request = Request(WORDS, str(folder.path / "gone"), 0o22, [])
    with pytest.raises(Declined, match=r"^$"):
        runner.run(request, Output())


def test_the_memory_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "available_memory_bytes", lambda: 1000)
    monkeypatch.delenv("QUOD_RESIDENT_MEMORY", raising=False)
    assert memory_bound() == 500
    for text, expected in (("4096", 4096), ("2G", 2 << 30), ("1.5k", 1536)):
        monkeypatch.setenv("QUOD_RESIDENT_MEMORY", text)
        assert memory_bound() == expected
    for text in ("4 GiB", "-1", "0", "G", "inf"):
        monkeypatch.setenv("QUOD_RESIDENT_MEMORY", text)
        with pytest.raises(DeviceError, match="QUOD_RESIDENT_MEMORY is a number above zero"):
            memory_bound()
