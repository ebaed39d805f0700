from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from quod.errors import OutputError
from quod.formats import write_all_atomically, write_atomically


def test_writes_bytes_and_functions(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"sec")
        file.write(b"ond")

    target = tmp_path / "out"
    write_atomically(target, b"first")
    assert target.read_bytes() == b"first"
    write_atomically(target, write)
    assert target.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["out"]


def test_new_file_obeys_umask_and_old_one_keeps_its_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write_atomically(tmp_path / "new", b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_private_file_has_owner_only_mode(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        paths = [tmp_path / name for name in ("secret", "open")]
        write_all_atomically(dict.fromkeys(paths, b"x"), private=paths[:1])
    finally:
        os.umask(old)
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o666]


def test_private_file_does_not_inherit_the_old_mode(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_bytes(b"old")
    target.chmod(0o644)
    write_atomically(target, b"new", private=True)
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_private_and_exclusive_files_may_be_named_by_path_or_text(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_all_atomically({path: b"first"}, private=[str(path)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OutputError, match="already exists"):
        write_all_atomically({str(path): b"second"}, exclusive=[path])
    assert path.read_bytes() == b"first"


def _without_links(*_: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("has_links", [True, False])
def test_exclusive_write_keeps_an_existing_file(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", _without_links)
    target = tmp_path / "out"
    write_atomically(target, b"first", replace=False)
    ran: list[BinaryIO] = []
    with pytest.raises(OutputError, match=r"already exists.*--force") as error:
        write_atomically(target, ran.append, replace=False)
    assert (error.value.exit_code, ran) == (5, [])
    assert str(target) in str(error.value)
    assert target.read_bytes() == b"first"
    write_atomically(target, b"second")
    assert target.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("has_links", [True, False])
def test_exclusive_write_keeps_a_concurrently_created_file(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", _without_links)
    target, other = tmp_path / "out", tmp_path / "other"

    def write(file: BinaryIO) -> None:
        file.write(b"ours")
        target.write_bytes(b"theirs")

    with pytest.raises(OutputError, match="already exists"):
        write_all_atomically({other: b"other", target: write}, exclusive=[target])
    assert target.read_bytes() == b"theirs"
    # Nothing of what belongs to it was put in place.
    assert os.listdir(tmp_path) == ["out"]


def test_a_failure_without_hard_links_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken with an empty file first, which must not stay as the result."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", _without_links)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError):
        write_atomically(tmp_path / "result", b"new", replace=False)
    assert os.listdir(tmp_path) == []


def test_exclusive_write_to_a_descriptor_succeeds(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+b") as file:
        write_atomically(f"/dev/fd/{file.fileno()}", b"x", replace=False)
    assert (tmp_path / "out").read_bytes() == b"x"


def test_follows_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "real")
    write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("absent/out", "create its directory first"),
        ("file/out", "name a path whose parent is a directory"),
        ("folder", "name a file, not a directory"),
        ("n" * 300, "choose a shorter name"),
    ],
)
def test_unwritable_target(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError) as error:
        write_atomically(tmp_path / name, b"x")
    assert str(tmp_path / name) in str(error.value)
    assert advice in str(error.value)
    assert error.value.exit_code == 5
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="may write to"):
        write_atomically(tmp_path / "out", b"x")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_device_is_written_to_and_full_disk_is_reported() -> None:
    write_atomically("/dev/null", b"x")
    with pytest.raises(OutputError, match=r"No space left on device.*; free some space"):
        write_atomically("/dev/full", b"x")


def test_full_disk_keeps_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # The nearest a process comes to a full disk of its own: writes past 64 KiB fail.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        with pytest.raises(OutputError, match="File too large"):
            write_atomically(target, bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_disk_that_is_found_full_on_flushing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Network file systems report a full disk no earlier than this.
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="free some space"):
        write_atomically(tmp_path / "out", b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_interruption_leaves_no_file(tmp_path: Path, interruption: type[BaseException]) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise interruption

    with pytest.raises(interruption):
        write_all_atomically({tmp_path / "one": b"x", tmp_path / "two": write})
    assert os.listdir(tmp_path) == []


def test_several_files_are_written_atomically(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="absent"):
        write_all_atomically({tmp_path / "one": b"x", tmp_path / "absent" / "two": b"y"})
    if os.path.exists("/dev/full"):
        with pytest.raises(OutputError, match="/dev/full"):
            write_all_atomically({tmp_path / "one": b"x", "/dev/full": b"y"})
    assert os.listdir(tmp_path) == []
    write_all_atomically({tmp_path / "one": b"x", tmp_path / "two": b"y"})
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_only_durable_files_wait_for_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: flushed.append(os.readlink(f"/proc/self/fd/{file}"))
    )
    contents = {tmp_path / name: name.encode() for name in ("a", "b")}
    for durable in (False, True):
        flushed.clear()
        write_all_atomically(contents, durable=durable)
        assert [path.read_bytes() for path in contents] == [b"a", b"b"]
        assert len(flushed) == 2 + durable
        assert (str(tmp_path) in flushed) is durable
