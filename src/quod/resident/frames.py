"""The protocol of the resident helper, over a Unix socket.

Both sides first send `GREETING`: four letters and the version of this protocol. Then frames follow:

u32   length of the payload in bytes, little-endian
u8    kind
      the payload

| kind | sender | payload |
|---|---|---|
| RUN, STATUS, STOP | client | fields of text, separated by NUL; see `Request` |
| ALIVE | helper | empty: the helper works, or the command waits for another one |
| STDOUT, STDERR | helper | text that the command prints, in UTF-8 |
| ENDED | helper | u8: the exit code of the command |
| DECLINED | helper | the reason in UTF-8; the client runs the command. Empty: without a warning |

A client sends one RUN, STATUS or STOP; the last frame of the answer is ENDED or DECLINED. Fields
are neither JSON nor objects, as the `json` module takes as long to import as Python to start.
"""

from __future__ import annotations

import os

# Not the name of `typing`, and no import at run time: each takes a millisecond of every command.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROTOCOL = 1
GREETING = b"quod" + bytes([PROTOCOL])
MAX_BYTES = 1 << 20
"""The limit on the payload of a frame."""

RUN, STATUS, STOP, ALIVE, STDOUT, STDERR, ENDED, DECLINED = range(1, 9)

_HEADER_BYTES = 5


class FrameError(Exception):
    """The other side sent bytes that are not of this protocol, or closed the connection."""


class Request:
    """A command for the helper.

    words: the command line without the program.
    folder: the working directory.
    umask: the permissions that new files lack.
    surroundings: see `quod.resident.surroundings`.
    """

    def __init__(
        self, words: Sequence[str], folder: str, umask: int, surroundings: Sequence[str]
    ) -> None:
        self.words, self.folder, self.umask = list(words), folder, umask
        self.surroundings = list(surroundings)

    def encode(self) -> bytes:
        """Encode the request; none of its texts contains NUL."""
        fields = [
            self.folder, f"{self.umask:o}", str(len(self.surroundings)), *self.surroundings,
            *self.words,
        ]  # fmt: skip
        return b"\0".join([os.fsencode(field) for field in fields])

    @classmethod
    def decode(cls, payload: bytes) -> Request:
        """Decode a request; raises FrameError for bytes that `encode` does not return."""
        fields = [os.fsdecode(field) for field in payload.split(b"\0")]
        try:
            folder, umask, count = fields[0], int(fields[1], 8), int(fields[2])
        except (IndexError, ValueError):
            raise FrameError("a request lacks its fields") from None
        if not (os.path.isabs(folder) and 0 <= umask <= 0o777 and 0 <= count < len(fields) - 3):
            raise FrameError("a request has a wrong field")
        return cls(fields[3 + count :], folder, umask, fields[3 : 3 + count])


def frame(kind: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame; raises FrameError if the payload is too long."""
    if len(payload) > MAX_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes is too long")
    return len(payload).to_bytes(4, "little") + bytes([kind]) + payload


class FrameReader:
    """Reads frames.

    receive: returns up to this many bytes of the connection, and no bytes at its end.
    """

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive, self._buffer = receive, b""

    def greet(self) -> None:
        """Read the greeting; raises FrameError for that of another protocol or version."""
        if self._take(len(GREETING)) != GREETING:
            raise FrameError("the other side speaks another version of the protocol")

    def read(self) -> tuple[int, bytes]:
        """Read a frame: its kind and payload. Raises FrameError."""
        header = self._take(_HEADER_BYTES)
        length, kind = int.from_bytes(header[:4], "little"), header[4]
        if length > MAX_BYTES or not RUN <= kind <= DECLINED:
            raise FrameError("a frame has an unknown kind or is too long")
        return kind, self._take(length)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            chunk = self._receive(max(4096, count - len(self._buffer)))
            if not chunk:
                raise FrameError("the connection has ended")
            self._buffer += chunk
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken
