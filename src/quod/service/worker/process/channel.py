"""Remote calls in both directions over a socket pair, as frames of JSON and bytes.

u32   length of the JSON in bytes, little-endian
u32   length of the body in bytes, little-endian
      the JSON: {"call": NAME, "id": N, "arguments": {...}}, {"tell": NAME, "arguments": {...}},
      {"value": ANY, "id": N}, with "bytes": true if a body follows, or {"error": {...}, "id": N}
      the body
"""

from __future__ import annotations

import itertools
import json
import logging
import socket
import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from quod.errors import InputError
from quod.service.encoding import decode_error, encode_error, encode_frame
from quod.service.errors import UnavailableError

HUNG = 70
"""The exit code of a worker process whose device hangs."""

Handler = Callable[[dict[str, Any], bytes], object]

_HEADER = struct.Struct("<II")
_MAX_JSON_BYTES, _MAX_BODY_BYTES = 16 << 20, 64 << 20
_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The value of a call with a body of bytes: a handler returns it, and `call` passes it on."""

    value: Any
    body: bytes


class Channel:
    """One end of a connection on which both processes call each other.

    handlers: functions for the other end's calls, run on up to `threads` threads.
    prompt: names of handlers that the reading thread calls in order of arrival. They must not
        block, and return a function that a thread of the pool calls for the value.
    on_disconnect: called once when the other end has closed the connection or sent an invalid
        message.
    """

    def __init__(
        self, connection: socket.socket, handlers: Mapping[str, Handler],
        on_disconnect: Callable[[], None], *, threads: int = 8, prompt: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._connection, self._handlers, self._on_disconnect = connection, handlers, on_disconnect
        self._prompt = frozenset(prompt)
        self._send_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._call_ids = itertools.count()
        self._pending_calls: dict[int, Future[Any]] = {}
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="quod-channel")
        self._thread = threading.Thread(target=self._read_frames, name="quod-channel", daemon=True)

    def start(self) -> None:
        """Start the reading thread."""
        self._thread.start()

    def call(
        self, name: str, arguments: Mapping[str, object], body: bytes = b"",
        timeout: float | None = None,
    ) -> Any:  # fmt: skip
        """Call the other end; return the value of its handler or raise its error.

        timeout: in seconds.
        Returns an `Answer` if the handler returned one. Raises UnavailableError if the other end is
        gone or the timeout has passed, InputError for a message that is too long.
        """
        future: Future[Any] = Future()
        with self._state_lock:
            if self._closed:
                raise _unavailable()
            call_id = next(self._call_ids)
            self._pending_calls[call_id] = future
        message = {"call": name, "id": call_id, "arguments": encode_frame(arguments)}
        try:
            self._send_frame(message, body)
            return future.result(timeout)
        except TimeoutError:
            raise _unavailable() from None
        finally:
            with self._state_lock:
                self._pending_calls.pop(call_id, None)

    def send(self, name: str, arguments: Mapping[str, object]) -> None:
        """Call a handler of the other end without waiting for it.

        The other end's reading thread runs the handler, in order of arrival. So it must not block,
        and an exception in it closes the channel.
        """
        self._send_frame({"tell": name, "arguments": encode_frame(arguments)}, b"")

    def close(self) -> None:
        """Close the connection, which fails all pending calls."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()
        # Running handlers finish before the caller continues.
        self._pool.shutdown()
        self._connection.close()

    # --- frames

    def _send_frame(self, message: object, body: bytes) -> None:
        text = json.dumps(message).encode()
        if len(text) > _MAX_JSON_BYTES or len(body) > _MAX_BODY_BYTES:
            raise InputError(f"a message of {len(text)} and {len(body)} bytes is too long")
        try:
            with self._send_lock:
                self._connection.sendall(_HEADER.pack(len(text), len(body)) + text + body)
        except OSError:
            raise _unavailable() from None

    def _receive(self, count: int) -> bytes:
        data = bytearray(count)
        received, view = 0, memoryview(data)
        while received < count:
            size = self._connection.recv_into(view[received:])
            if not size:
                raise EOFError
            received += size
        return bytes(data)

    def _read_frames(self) -> None:
        try:
            while True:
                json_length, body_length = _HEADER.unpack(self._receive(_HEADER.size))
                if json_length > _MAX_JSON_BYTES or body_length > _MAX_BODY_BYTES:
                    raise InputError("a message is too long")
                self._dispatch(json.loads(self._receive(json_length)), self._receive(body_length))
        except (EOFError, OSError):
            pass
        except Exception:
            _log.exception("the other process said what is no message")
        with self._state_lock:
            self._closed = True
            pending, self._pending_calls = list(self._pending_calls.values()), {}
        for future in pending:
            future.set_exception(_unavailable())
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._on_disconnect()

    def _dispatch(self, message: Any, body: bytes) -> None:
        match message:
            case {"call": str(name), "id": int(call_id), "arguments": dict(arguments)}:
                work: Callable[[], object] = partial(self._handle, name, arguments, body)
                if name in self._prompt:
                    work = _begin_call(work)
                self._pool.submit(self._answer, call_id, work)
            case {"tell": str(name), "arguments": dict(arguments)}:
                self._handlers[name](arguments, body)
            case {"value": value, "bytes": True, "id": int(call_id)}:
                self._settle(call_id, lambda future: future.set_result(Answer(value, body)))
            case {"value": value, "id": int(call_id)}:
                self._settle(call_id, lambda future: future.set_result(value))
            case {"error": error, "id": int(call_id)}:
                decoded_error = decode_error(error)
                self._settle(call_id, lambda future: future.set_exception(decoded_error))
            case _:
                raise InputError("a message is none of a channel")

    def _settle(self, call_id: int, settle: Callable[[Future[Any]], None]) -> None:
        with self._state_lock:
            future = self._pending_calls.pop(call_id, None)
        # The caller may have timed out.
        if future is not None:
            settle(future)

    def _handle(self, name: str, arguments: dict[str, Any], body: bytes) -> object:
        return self._handlers[name](arguments, body)

    def _answer(self, call_id: int, work: Callable[[], object]) -> None:
        answer: dict[str, object]
        data = b""
        try:
            value = work()
            if isinstance(value, Answer):
                answer, data = {"value": encode_frame(value.value), "bytes": True}, value.body
            else:
                answer = {"value": encode_frame(value)}
        except Exception as error:
            answer = {"error": encode_error(error)}
        with suppress(UnavailableError):
            self._send_frame({**answer, "id": call_id}, data)


def parts_of(body: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Split a body by lengths in bytes; raises InputError unless they add up to its length."""
    ends = list(itertools.accumulate(lengths, initial=0))
    if ends[-1] != len(body):
        raise InputError("a message has other bytes than it says")
    return [body[start:end] for start, end in itertools.pairwise(ends)]


def _begin_call(work: Callable[[], object]) -> Callable[[], object]:
    """Call a prompt handler; return the function that returns its value or raises its error."""
    try:
        end_call = work()
    except Exception as error:
        return partial(_raise, error)
    assert callable(end_call)
    return end_call


def _raise(error: Exception) -> None:
    raise error


def _unavailable() -> UnavailableError:
    return UnavailableError("the other process has gone, or does not answer", retry_seconds=1.0)
