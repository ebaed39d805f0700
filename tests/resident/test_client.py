"""Whatever a helper does, the command has its result, with at most one warning."""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from quod.resident import client, frames, listener, surroundings
from quod.resident.runtime_folder import open_folder
from tests.resident.conftest import Folder

WORDS = ["groth16", "prove", "circuit.zkey", "witness.wtns", "proof.json", "public.json"]
GREETING = frames.GREETING

Behaviour = Callable[[socket.socket], object]


@contextmanager
def helper(behave: Behaviour) -> Iterator[None]:
    """A helper for one connection that behaves in this way."""
    handle = open_folder(create=True)
    with listener.locked(handle):
        listening = listener.listen(handle)

    def serve() -> None:
        with socket.socket(fileno=os.dup(listening.fileno())) as accepting:
            connection, _ = accepting.accept()
            with connection:
                behave(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listening.close()
        os.close(handle)


def read_request(connection: socket.socket) -> frames.Request:
    reader = frames.FrameReader(connection.recv)
    reader.greet()
    kind, payload = reader.read()
    assert kind == frames.RUN
    return frames.Request.decode(payload)


def answering(data: bytes) -> Behaviour:
    def behave(connection: socket.socket) -> None:
        connection.sendall(data)
        read_request(connection)

    return behave


def ignore(connection: socket.socket) -> None:
    """Do nothing until the client gives up."""
    while connection.recv(4096):
        pass


def greet_and_ignore(connection: socket.socket) -> None:
    connection.sendall(GREETING)
    ignore(connection)


FAILURES: list[tuple[Behaviour, str]] = [
    (lambda connection: None, "connection"),
    (ignore, "does not answer"),
    (greet_and_ignore, "does not answer"),
    (answering(b"quod\x02"), "version"),
    (answering(b"HTTP/1.1 400"), "version"),
    (answering(GREETING + b"\xff" * 40), "too long"),
    (answering(GREETING + frames.frame(frames.STDERR, b"x")[:-1]), "ended"),
    (answering(GREETING + frames.frame(frames.ALIVE)), "ended"),
    (answering(GREETING + frames.frame(frames.ENDED)), "ended"),
    (answering(GREETING + frames.frame(frames.DECLINED, b"is of no use")), "is of no use"),
]


@pytest.mark.parametrize(("behave", "reason"), FAILURES)
def test_the_command_runs_without_a_helper_that_fails(
    behave: Behaviour,
    reason: str,
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(client, "HANG_SECONDS", 0.3)
    handler = signal.getsignal(signal.SIGTERM)
    with helper(behave):
        assert client.run(WORDS) is None
    assert signal.getsignal(signal.SIGTERM) == handler
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("quod: warning: the resident helper ")
    # The system may report the end of the connection first.
    endings = (reason, "reset by peer", "Broken pipe")
    assert any(ending in captured.err for ending in endings)
    assert captured.err.endswith("; this command runs without it\n")
    assert captured.err.count("\n") == 1


def test_a_declined_command_without_reason_has_no_warning(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    with helper(answering(GREETING + frames.frame(frames.DECLINED))):
        assert client.run(WORDS) is None
    assert capfd.readouterr() == ("", "")


def test_the_request_and_the_answer(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    requests = []

    def behave(connection: socket.socket) -> None:
        connection.sendall(GREETING)
        requests.append(read_request(connection))
        for _ in range(3):
            time.sleep(0.05)
            connection.sendall(frames.frame(frames.ALIVE))
        connection.sendall(
            frames.frame(frames.STDOUT, "résult\n".encode())
            + frames.frame(frames.STDERR, b"remark\n") + frames.frame(frames.ENDED, b"\6")
        )  # fmt: skip

    umask = os.umask(0o37)
    try:
        with helper(behave):
            assert client.run(WORDS) == 6
    finally:
        os.umask(umask)
    assert capfd.readouterr() == ("résult\n", "remark\n")
    (request,) = requests
    assert (request.words, request.folder, request.umask) == (WORDS, str(folder.path), 0o37)
    assert request.surroundings == surroundings.surroundings()
    assert "CUDA_VISIBLE_DEVICES=3" in request.surroundings


def test_older_spellings_are_sent_as_quods(folder: Folder) -> None:
    requests = []

    def behave(connection: socket.socket) -> None:
        connection.sendall(GREETING)
        requests.append(read_request(connection))
        connection.sendall(frames.frame(frames.ENDED, b"\0"))

    for spelling in (["g16p", *WORDS[2:]], ["zksnark", "proof", *WORDS[2:]]):
        with helper(behave):
            assert client.run(spelling) == 0
    assert [request.words for request in requests] == [WORDS, WORDS]


def test_results_that_cannot_be_written_are_left_to_this_process(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(stream: int, data: bytes) -> int:
        if stream == 1:
            raise OSError(errno.ENOSPC, "full")
        return len(data)

    monkeypatch.setattr(os, "write", write)
    answer = frames.frame(frames.STDOUT, b"OK") + frames.frame(frames.ENDED, b"\0")
    with helper(answering(GREETING + answer)):
        assert client.run(WORDS) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "value", "wanted"),
    [
        ([], None, False),
        ([], "", False),
        ([], "0", False),
        ([], "1", True),
        (["--resident"], None, True),
        (["--no-resident"], "1", False),
        (["--resident", "--no-resident"], "1", False),
        (["--no-resident", "--resident"], "0", True),
    ],
)
def test_the_option_overrides_the_variable(
    words: list[str], value: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUOD_RESIDENT", raising=False)
    if value is not None:
        monkeypatch.setenv("QUOD_RESIDENT", value)
    assert client.is_wanted([*WORDS, *words]) is wanted


@pytest.mark.parametrize("words", [[], ["devices"], ["groth16", "setup"], ["groth16"], ["verify"]])
def test_other_commands_start_no_helper(words: list[str], folder: Folder) -> None:
    if words != ["verify"]:
        assert client.run(words) is None
    assert not folder.runtime.exists()


def test_limited_processes_start_no_helper(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 40, 1 << 40))
    assert client.run(WORDS) is None
    assert not folder.runtime.exists()


@pytest.mark.parametrize("name", ["flock", "bind", "fork"])
def test_a_helper_that_cannot_be_started_is_one_warning(
    name: str,
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if name == "bind":

        class Socket(_socket.socket):
            bind = fail  # type: ignore[assignment]

        monkeypatch.setattr(_socket, "socket", Socket)
    else:
        monkeypatch.setattr(fcntl if name == "flock" else os, name, fail)
    assert client.run(WORDS) is None
    warning = capfd.readouterr().err
    assert warning.count("\n") == 1
    assert "could not be used (No space left on device)" in warning


def test_another_users_socket_is_one_warning(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.runtime.mkdir(mode=0o755)
    assert client.run(WORDS) is None
    warning = capfd.readouterr().err
    assert warning.count("\n") == 1
    assert "mode 0700" in warning


def test_without_a_helper_there_is_no_answer(folder: Folder) -> None:
    assert client.ask(frames.STATUS) is None
    assert client.ask(frames.STOP) is None


def test_a_helper_that_hangs_up_is_no_closed_output(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of an error, not of a reader of the results that has gone."""

    def hang_up(kind: int) -> str:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(client, "ask", hang_up)
    for word in ("status", "stop"):
        code, output, errors = folder.run_here("resident", word)
        assert (code, output) == (1, "")
        assert "the resident helper does not answer" in errors
