"""Sources that small inputs may come from, and the limit of what is read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from quod.errors import InputError
from quod.formats import read_proof, read_public, read_verification_key, source
from quod.formats.source import read_file, read_small
from quod.web.signals import read_example, read_symbols
from quod.web.witness_wasm import read_calculator
from tests.formats.tiny import DATA, piped

# Every reader of a small file.
READERS: dict[str, Callable[[str], object]] = {
    "proof": lambda path: read_proof(path, curve="bn254"),
    "public": lambda path: read_public(path, curve="bn254"),
    "verification key": read_verification_key,
    "symbols": lambda path: read_symbols(path, 1),
    "input": read_example,
    "calculator": read_calculator,
}


def small(path: str | Path) -> bytes:
    return read_small(path, limit=100, what="a test")


@pytest.mark.parametrize("size", [1, 99, 100])
def test_files_and_pipes_up_to_the_limit(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert small(tmp_path / "file") == data
    with piped(data) as pipe:
        assert small(pipe) == data


def test_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(101))
    with pytest.raises(
        InputError, match=r"file: is longer than the limit for a test \(100 bytes\)"
    ):
        small(tmp_path / "file")
    with (
        piped(bytes(101)) as pipe,
        pytest.raises(InputError, match="is longer than the limit for a test"),
    ):
        small(pipe)


def test_length_is_checked_before_reading(tmp_path: Path) -> None:
    # No disk has it: it is a hole.
    with open(tmp_path / "file", "wb") as file:
        os.truncate(file.fileno(), 1 << 40)
    for read in READERS.values():
        with pytest.raises(InputError, match="is longer than"):
            read(str(tmp_path / "file"))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/urandom", "folder", "socket"])
def test_devices_folders_and_sockets_are_refused(tmp_path: Path, name: str, path: str) -> None:
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        if path == "socket":
            place = os.getcwd()
            os.chdir(tmp_path)  # names of sockets are short
            server.bind("socket")
            os.chdir(place)
        part = "but a folder" if path == "folder" else "neither a regular file nor a pipe"
        with pytest.raises(InputError, match=part) as error:
            READERS[name](str(tmp_path / path))
    assert error.value.exit_code == 3


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("path", "part"),
    [("absent", "does not exist"), ("nul\0", "could not be read"), ("\ud800", "could not be read")],
)
def test_missing_files_are_reported(tmp_path: Path, name: str, path: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        READERS[name](str(tmp_path / path))


def test_empty_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for read in (*READERS.values(), lambda path: read_file(path, len)):
        with pytest.raises(InputError, match="is empty"):
            read(str(tmp_path / "file"))
    with piped(b"") as pipe, pytest.raises(InputError, match="is empty"):
        small(pipe)


def test_readers_accept_pipes() -> None:
    for name, file in (("proof", "proof.json"), ("verification key", "verification_key.json")):
        with piped((DATA / "bn254" / file).read_bytes()) as pipe:
            assert READERS[name](pipe) == READERS[name](str(DATA / "bn254" / file))


def test_owned_read_copies_the_file(tmp_path: Path) -> None:
    data = os.urandom(100_000)
    (tmp_path / "file").write_bytes(data)
    content = read_file(tmp_path / "file", len)
    os.truncate(tmp_path / "file", 0)
    assert content == data
    assert content.readonly
    with piped(b"x") as pipe, pytest.raises(InputError, match="is not a regular file"):
        read_file(pipe, len)


def test_pipe_swapped_in_for_a_file_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may replace a file with a pipe after its type was checked."""
    path = tmp_path / "file"
    os.mkfifo(path)
    # Opened for both, the pipe lets no reader wait, whatever its flags.
    writer = os.open(path, os.O_RDWR)
    opened, looks = [], []

    def recorded(name: str, flags: int, *others: int) -> int:
        opened.append(flags)
        return system_open(name, flags, *others)

    def checked(name: str, mode: int, pipes: bool) -> None:
        looks.append(mode)
        if len(looks) > 1:
            check_type(name, mode, pipes)

    system_open, check_type = os.open, source._check_type
    monkeypatch.setattr(os, "open", recorded)
    monkeypatch.setattr(source, "_check_type", checked)
    try:
        with pytest.raises(InputError, match="not a regular file"):
            read_file(path, lambda _: None)
    finally:
        os.close(writer)
    assert [flags & os.O_NONBLOCK for flags in opened] == [os.O_NONBLOCK]
