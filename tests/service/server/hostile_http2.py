"""A client of HTTP/2 that sends as much as a server lets it, and ends nothing that it began."""

from __future__ import annotations

import socket
import struct
from collections import defaultdict

SECONDS = 60.0
_FRAME = 16384
# A server that says nothing for so long gives no more room.
_QUIET = 0.1
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _UPDATE = 0, 1, 3, 4, 6, 7, 8


class Hostile:
    """A connection; streams have odd numbers from 1 on."""

    def __init__(self, address: tuple[str, int], *, acknowledge: bool = True) -> None:
        self._socket = socket.create_connection(address, timeout=SECONDS)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
        self._buffer = b""
        self._acknowledge = acknowledge
        self._initial = self._connection = 65535
        self._windows: dict[int, int] = defaultdict(int)
        self._next = 1
        self.settings: dict[int, int] = {}
        self.ended: set[int] = set()
        self.statuses: dict[int, bytes] = {}
        self.is_open = True
        while not self.settings:
            self.receive(SECONDS)

    def begin(self, path: str, token: str | None = None) -> int:
        """Begin a call; the number of its stream."""
        headers = [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers"),
        ]  # fmt: skip
        if token is not None:
            headers.append(("authorization", f"Bearer {token}"))
        block = b"".join(
            b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in headers
        )
        number, self._next = self._next, self._next + 2
        self._windows[number] = self._initial
        self._send(_frame(_HEADERS, 4, number, block))
        return number

    def send(self, number: int, data: bytes, *, end: bool = False) -> int:
        """Send as many bytes of a stream as the windows allow; how many."""
        sent = 0
        while sent < len(data) and number not in self.ended and self.is_open:
            room = min(self._connection, self._windows[number], _FRAME, len(data) - sent)
            if room <= 0:
                if not self.receive(_QUIET):
                    break
                continue
            last = end and sent + room == len(data)
            self._send(_frame(_DATA, int(last), number, data[sent : sent + room]))
            self._connection -= room
            self._windows[number] -= room
            sent += room
        return sent

    def receive(self, seconds: float) -> bool:
        """Take what the server has sent; whether it sent anything."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self.is_open = False
            return False
        self._buffer += data
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < 9 + length:
                break
            kind, flags = self._buffer[3], self._buffer[4]
            number = int.from_bytes(self._buffer[5:9], "big") & 0x7FFFFFFF
            body, self._buffer = self._buffer[9 : 9 + length], self._buffer[9 + length :]
            self._take(kind, flags, number, body)
        return True

    def close(self) -> None:
        self._socket.close()

    def _take(self, kind: int, flags: int, number: int, body: bytes) -> None:
        if kind == _SETTINGS and not flags & 1:
            for name, value in struct.iter_unpack(">HI", body):
                self.settings[name] = value
                if name == 4 and self._acknowledge:
                    for stream in self._windows:
                        self._windows[stream] += value - self._initial
                    self._initial = value
            if self._acknowledge:
                self._send(_frame(_SETTINGS, 1, 0, b""))
        elif kind == _PING and not flags & 1:
            self._send(_frame(_PING, 1, 0, body))
        elif kind == _UPDATE:
            increment = int.from_bytes(body, "big")
            if number:
                self._windows[number] += increment
            else:
                self._connection += increment
        elif kind == _RESET:
            self.ended.add(number)
        elif kind == _HEADERS:
            self.statuses[number] = self.statuses.get(number, b"") + body
            if flags & 1:
                self.ended.add(number)
        elif kind == _DATA:
            if flags & 1:
                self.ended.add(number)
            self._send(_frame(_UPDATE, 0, 0, max(1, len(body)).to_bytes(4, "big")))
        elif kind == _GOAWAY:
            self.is_open = False

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(SECONDS)
        try:
            self._socket.sendall(data)
        except OSError:
            self.is_open = False


def message(length: int, sent: bytes) -> bytes:
    """The beginning of a message of gRPC that says that it has so many bytes."""
    return b"\0" + length.to_bytes(4, "big") + sent


def _frame(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + body
