"""Only sockets, folders and processes of this user are used."""

from __future__ import annotations

import _socket
import os
import stat
import threading
from pathlib import Path

import pytest

from quod.private_folder import NotOwnError
from quod.resident import listener, runtime_folder
from quod.resident.runtime_folder import ForeignError, connect, folder_path, open_folder


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "quod"


def test_the_folder_and_the_socket_are_private(runtime: Path) -> None:
    umask = os.umask(0)
    try:
        folder = open_folder(create=True)
        with listener.locked(folder):
            listening = listener.listen(folder)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    assert stat.S_IMODE((runtime / "helper.socket").stat().st_mode) == 0o600
    assert stat.S_IMODE((runtime / "helper.lock").stat().st_mode) == 0o600
    connect(folder, 1.0).close()
    listening.close()
    with pytest.raises(ConnectionRefusedError):
        connect(folder, 1.0)


def test_long_paths_are_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("a" * 200)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    folder = open_folder(create=True)
    with listener.locked(folder):
        listening = listener.listen(folder)
    connect(folder, 1.0).close()
    listening.close()


def test_without_a_runtime_folder_it_is_in_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        assert folder_path() == f"/tmp/quod-{os.geteuid()}"


def test_no_folder_and_no_socket(runtime: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_folder(create=False)
    folder = open_folder(create=True)
    with pytest.raises(FileNotFoundError):
        connect(folder, 1.0)


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o777])
def test_a_folder_that_others_can_enter_is_refused(runtime: Path, mode: int) -> None:
    runtime.mkdir()
    runtime.chmod(mode)
    with pytest.raises((ForeignError, NotOwnError)):
        open_folder(create=True)


def test_the_folder_of_another_user_is_refused(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises((ForeignError, NotOwnError)):
        open_folder(create=False)


@pytest.mark.parametrize("kind", ["file", "link", "mode"])
def test_a_socket_that_others_may_use_is_refused(runtime: Path, kind: str) -> None:
    folder = open_folder(create=True)
    with listener.locked(folder):
        listening = listener.listen(folder)
    path = runtime / "helper.socket"
    if kind == "mode":
        path.chmod(0o660)
    else:
        path.rename(runtime / "other")
        if kind == "file":
            path.touch(mode=0o600)
        else:
            path.symlink_to("other")
    with pytest.raises(ForeignError, match="mode 0600"):
        connect(folder, 1.0)
    listening.close()


def test_the_socket_of_another_user_is_refused(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_folder(create=True)
    with listener.locked(folder):
        listening = listener.listen(folder)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ForeignError, match="of this user"):
        connect(folder, 1.0)
    listening.close()


def test_the_process_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _socket.socketpair()
    runtime_folder.check_peer(first)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ForeignError, match="belongs to user"):
        runtime_folder.check_peer(second)
    monkeypatch.setattr(runtime_folder, "_PEER", None)
    with pytest.raises(ForeignError, match="does not report"):
        runtime_folder.check_peer(second)


def test_only_its_own_socket_is_removed(runtime: Path) -> None:
    folder = open_folder(create=True)
    with listener.locked(folder):
        first = listener.listen(folder)
        identity = listener.identity(folder)
        # The first file exists still, so the second has another inode.
        (runtime / "helper.socket").rename(runtime / "first")
        second = listener.listen(folder)
    listener.remove(folder, identity)
    assert (runtime / "helper.socket").exists()
    listener.remove(folder, listener.identity(folder))
    assert listener.identity(folder) is None
    first.close()
    second.close()


def test_the_lock_is_waited_for(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(create=True)
    monkeypatch.setattr(listener, "_LOCK_SECONDS", 0.05)
    with listener.locked(folder), pytest.raises(BlockingIOError), listener.locked(folder):
        pass
    monkeypatch.setattr(listener, "_LOCK_SECONDS", 60)
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with listener.locked(folder):
            taken.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    threading.Timer(0.1, release.set).start()
    with listener.locked(folder):
        assert release.is_set()
    thread.join()
