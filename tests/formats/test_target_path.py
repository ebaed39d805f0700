"""Outputs that are not replaceable files: descriptors, pipes, devices; links of other users."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quod.errors import OutputError
from quod.formats import write_all_atomically, write_atomically
from quod.formats.target_path import ForeignLinkError, _check_owner, follow

WRITE = "import sys; from quod.formats import write_atomically as w; w(sys.argv[1], b'new\\n')"


def write_in_child(path: str, **streams: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", WRITE, path]
    return subprocess.run(command, check=True, timeout=60, **streams)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_redirected_file_is_written_at_its_offset(tmp_path: Path, path: str) -> None:
    if path == "link":
        path = str(tmp_path / "link")
        os.symlink("/dev/stdout", path)
    target = tmp_path / "out"
    with open(target, "wb") as file:
        file.write(b"before\n")
        file.flush()
        inode = target.stat().st_ino
        write_in_child(path, stdout=file)
        write_in_child(path, stdout=file)
    assert target.read_bytes() == b"before\nnew\nnew\n"
    assert target.stat().st_ino == inode
    assert {entry.name for entry in tmp_path.iterdir()} <= {"out", "link"}


def test_standard_output_as_a_pipe() -> None:
    assert write_in_child("/dev/stdout", stdout=subprocess.PIPE).stdout == b"new\n"
    assert write_in_child("/dev/stderr", stderr=subprocess.PIPE).stderr == b"new\n"


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    write_all_atomically({f"/dev/fd/{writing}": b"new", "/dev/null": b"x", tmp_path / "f": b"y"})
    os.close(writing)
    assert os.read(reading, 100) == b"new"
    os.close(reading)
    assert (tmp_path / "f").read_bytes() == b"y"
    assert os.listdir(tmp_path) == ["f"]


def test_closed_descriptor_is_reported(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(OutputError, match=r"could not be written \(Bad file descriptor\)"):
        write_all_atomically({tmp_path / "f": b"", f"/dev/fd/{writing}": b""})
    assert not any(tmp_path.iterdir())


def test_a_descriptor_of_another_process(tmp_path: Path) -> None:
    """The file behind it is that process's, and not to be renamed over."""
    target = tmp_path / "out"
    with open(target, "wb") as file:
        file.write(b"before\n")
        file.flush()
        for folder in (f"/proc/{os.getpid()}/fd", f"/proc/{os.getpid()}/task/{os.getpid()}/fd"):
            with pytest.raises(subprocess.CalledProcessError) as error:
                write_in_child(f"{folder}/{file.fileno()}", stderr=subprocess.PIPE)
            assert b"is another process's descriptor" in error.value.stderr
    assert target.read_bytes() == b"before\n"


def test_a_file_in_a_folder_that_is_open(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    write_atomically(f"/dev/fd/{folder}/f", b"x")
    os.close(folder)
    assert (tmp_path / "f").read_bytes() == b"x"


@pytest.mark.parametrize("number", ["99999999999999999999", "\u0661", "\u00b2"])
def test_invalid_descriptor_numbers_are_rejected(number: str) -> None:
    with pytest.raises(OutputError, match="could not be written"):
        write_atomically(f"/dev/fd/{number}", b"")


def test_files_named_like_descriptors_are_files(tmp_path: Path) -> None:
    (tmp_path / "fd").mkdir()
    write_atomically(tmp_path / "fd" / "1", b"x")
    assert (tmp_path / "fd" / "1").read_bytes() == b"x"
    assert follow(str(tmp_path / "fd" / "1")) == str(tmp_path / "fd" / "1")


def test_path_resolution_matches_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "b").symlink_to("a/b")
    (tmp_path / "file").symlink_to("b/../up/b/absent")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path / "a")
    for path in (".", "../b/../up/file", "b/./x", "up/up/x", f"{tmp_path}//b/x", "../file", "/"):
        assert follow(path) == os.path.realpath(path)
    with pytest.raises(OSError, match=r"[Ss]ymbolic"):
        follow(str(tmp_path / "loop"))
    with pytest.raises(OutputError, match="loop: could not be written"):
        write_atomically(tmp_path / "loop", b"")


@pytest.mark.parametrize("part", ["link", "folder/victim"])
def test_a_link_of_another_user_in_a_sticky_folder(tmp_path: Path, part: str) -> None:
    home, shared = tmp_path / "home", tmp_path / "shared"
    for folder, mode in ((home, 0o700), (shared, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    (home / "victim").write_bytes(b"precious")
    (shared / "link").symlink_to(home / "victim")
    (shared / "folder").symlink_to(home)
    if os.geteuid():
        pytest.skip("only root can make another user's link")
    for name in ("link", "folder"):
        os.lchown(shared / name, 12345, 12345)
    with pytest.raises(OutputError, match="is another user's link") as error:
        write_atomically(shared / part, b"x")
    assert error.value.exit_code == 5
    assert (home / "victim").read_bytes() == b"precious"
    # One's own link, and any link in a folder that is one's own alone, are followed.
    shared.chmod(0o755)
    write_atomically(shared / part, b"x")
    shared.chmod(0o1777)
    for name in ("link", "folder"):
        os.lchown(shared / name, os.geteuid(), os.getegid())
    write_atomically(shared / part, b"y")
    assert (home / "victim").read_bytes() == b"y"


@pytest.mark.parametrize(
    ("link", "folder", "mode", "refused"),
    [
        (5, 0, 0o1777, True),
        (5, 5, 0o1777, False),  # the folder's owner could do worse
        (7, 0, 0o1777, False),  # one's own
        (5, 0, 0o0777, False),  # as in Linux: no promise is made for such a folder
        (5, 0, 0o1755, False),
    ],
)
def test_link_owner_determines_whether_it_is_followed(
    monkeypatch: pytest.MonkeyPatch, link: int, folder: int, mode: int, refused: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    statuses = [
        os.stat_result((kind, 0, 0, 0, owner, 0, 0, 0, 0, 0))
        for kind, owner in ((0o120777, link), (0o040000 | mode, folder))
    ]
    with pytest.raises(ForeignLinkError) if refused else contextlib.nullcontext():
        _check_owner("/tmp/link", *statuses)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "folder\0/x"])
def test_impossible_paths_are_rejected(tmp_path: Path, path: str) -> None:
    with pytest.raises(OutputError, match="could not be written") as error:
        write_all_atomically({tmp_path / "good": b"", tmp_path / path: b""})
    str(error.value).encode("ascii")
    assert not any(tmp_path.iterdir())


def test_exceptions_of_writing_functions_propagate(tmp_path: Path) -> None:
    def write(file: object) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        write_atomically(tmp_path / "x", write)
    with pytest.raises(ValueError, match="mine"):
        write_atomically("/dev/null", write)
    assert not any(tmp_path.iterdir())
