"""The client of the resident helper: few imports, as it runs in each command that uses a helper.

tests/test_import_time.py limits the modules that it loads.
"""

from __future__ import annotations

# These modules in C load without the enumerations of `signal` and `socket`, which take as long to
# import as Python to start.
import _signal  # type: ignore[import-not-found]
import _socket
import os
import sys

from quod.resident import frames
from quod.resident.frames import FrameError, FrameReader, Request
from quod.resident.runtime_folder import connect, open_folder
from quod.resident.surroundings import is_limited, surroundings

# Not the name of `typing`, and no import at run time: each takes a millisecond of every command.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (["groth16", "prove"], ["groth16", "verify"])
"""The commands that a helper runs."""

HANG_SECONDS = 10.0
"""The time without a byte of the helper, which sends one each second, after which it hangs."""
START_SECONDS = 60.0
"""The time in which a helper that this process starts greets it."""

VARIABLE, OPTION, NO_OPTION = "QUOD_RESIDENT", "--resident", "--no-resident"


def is_wanted(words: Sequence[str]) -> bool:
    """Report whether a command line or QUOD_RESIDENT asks for a helper."""
    options = [word for word in words if word in (OPTION, NO_OPTION)]
    return options[-1] == OPTION if options else os.environ.get(VARIABLE, "") not in ("", "0")


def run(words: Sequence[str]) -> int | None:
    """Have the helper run a command, and return its exit code; None if this process must run it.

    Starts a helper if there is none. If that, or the helper, fails, this prints one warning.
    """
    if list(words[:1]) != ["groth16"]:
        from quod.cli.spellings import quod_spelling

        words = quod_spelling(words)
    if list(words[:2]) not in COMMANDS or is_limited():
        return None
    try:
        request = Request(words, os.getcwd(), _umask(), surroundings())
        connection = _connect_or_start()
    except (OSError, FrameError) as error:
        _warn(f"could not be used ({_reason(error)})")
        return None
    # Otherwise a standard stream is closed, and the connection has its number.
    return _answer(connection, request) if connection.fileno() > 2 else None


def ask(kind: int) -> str | None:
    """Return the helper's answer to STATUS or STOP; None if there is no helper.

    Raises OSError, and FrameError for an answer that is not of this protocol.
    """
    try:
        connection = _connect()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    connection.sendall(frames.GREETING + frames.frame(kind))
    reader, text = FrameReader(connection.recv), b""
    reader.greet()
    while True:
        answer, payload = reader.read()
        if answer == frames.ENDED:
            return text.decode()
        text += payload


def _connect() -> _socket.socket:
    folder = open_folder(create=False)
    try:
        return connect(folder, HANG_SECONDS)
    finally:
        os.close(folder)


def _connect_or_start() -> _socket.socket:
    try:
        return _connect()
    except (FileNotFoundError, ConnectionRefusedError):
        from quod.resident.listener import start

        return start(START_SECONDS)


class _Signal(KeyboardInterrupt):
    """The request of a signal to end the command."""

    def __init__(self, number: int) -> None:
        self.number = number


def _terminate(number: int, _frame: object) -> None:
    raise _Signal(number)


def _answer(connection: _socket.socket, request: Request) -> int | None:
    """Send a request and relay the answer; see `run`."""
    reader = FrameReader(connection.recv)
    handlers = {number: _signal.getsignal(number) for number in (_signal.SIGTERM, _signal.SIGHUP)}
    try:
        for number, handler in handlers.items():
            # Ignored as under nohup, or of code in C.
            if handler not in (_signal.SIG_IGN, None):
                _signal.signal(number, _terminate)
        connection.sendall(frames.GREETING + frames.frame(frames.RUN, request.encode()))
        reader.greet()
        connection.settimeout(HANG_SECONDS)
        return _relay(reader)
    except KeyboardInterrupt as interrupt:
        # The helper notices the end of the requests, and removes partial files.
        code = interrupt.number + 128 if isinstance(interrupt, _Signal) else 130
        try:
            connection.shutdown(_socket.SHUT_WR)
            _relay(reader)
        except (OSError, FrameError):
            _write(2, b"quod: interrupted\n")
        return code
    except (OSError, FrameError) as error:
        _warn(f"failed ({_reason(error)})")
        return None
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                _signal.signal(number, handler)


def _relay(reader: FrameReader) -> int | None:
    while True:
        kind, payload = reader.read()
        if kind == frames.ENDED and len(payload) == 1:
            return payload[0]
        if kind == frames.DECLINED:
            if payload:
                _warn(payload.decode(errors="replace"))
            return None
        if kind == frames.STDERR:
            _write(2, payload)
        elif kind == frames.STDOUT and not _write(1, payload):
            # This process reports the error in its own way.
            return None


def _write(stream: int, payload: bytes) -> bool:
    """Write UTF-8 to a standard stream in its encoding; return whether that worked."""
    text_stream = sys.stdout if stream == 1 else sys.stderr
    encoding = "utf-8" if text_stream is None else text_stream.encoding
    if encoding.lower() != "utf-8":
        payload = payload.decode(errors="replace").encode(encoding, "backslashreplace")
    try:
        while payload:
            payload = payload[os.write(stream, payload) :]
    except OSError:
        return False
    return True


def _warn(reason: str) -> None:
    # Not needed by commands that the helper runs.
    from quod.cli.display.terminal import warn

    if sys.stderr is not None:
        warn(f"the resident helper {reason}; this command runs without it")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
