"""Remote calls in both directions over a socket pair, framed as lengths, JSON and bytes.

u32   bytes of the JSON
u32   bytes of the body
      the JSON: {"call": NAME, "id": N, "arguments": {...}}, {"tell": NAME, "arguments": {...}},
      {"value": ANY, "id": N}, and "bytes": true with it for the body, or {"error": {...}, "id": N}
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

_HEAD = struct.Struct("<II")
_MOST_JSON, _MOST_BODY = 16 << 20, 64 << 20
_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The value of a call, with a body of bytes."""

    value: Any
    body: bytes


class Channel:
    """One end of a channel.

    handlers: functions for the other end's calls, run on up to `threads` threads.
    prompt: names of handlers that the reading thread calls in order. They must not block, and
        return a function that a thread of the pool calls for the value.
    gone: called once when the other end has closed the connection or sent an invalid message.
    """

    def __init__(
        self, connection: socket.socket, handlers: Mapping[str, Handler],
        gone: Callable[[], None], *, threads: int = 8, prompt: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._connection, self._handlers, self._gone = connection, handlers, gone
        self._prompt = frozenset(prompt)
        self._sending = threading.Lock()
        self._changing = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="quod-channel")
        self._thread = threading.Thread(target=self._run, name="quod-channel", daemon=True)

    def start(self) -> None:
        """Start the reading thread."""
        self._thread.start()

    def call(
        self, name: str, arguments: Mapping[str, object], body: bytes = b"",
        timeout: float | None = None,
    ) -> Any:  # fmt: skip
        """Call the other end; return the value of its handler or raise its error.

        Raises UnavailableError if the other end is gone or the timeout has passed.
        """
        future: Future[Any] = Future()
        with self._changing:
            if self._closed:
                raise _unavailable()
            number = next(self._numbers)
            self._waiting[number] = future
        message = {"call": name, "id": number, "arguments": encode_frame(arguments)}
        try:
            self._send(message, body)
            return future.result(timeout)
        except TimeoutError:
            raise _unavailable() from None
        finally:
            with self._changing:
                self._waiting.pop(number, None)

    def send(self, name: str, arguments: Mapping[str, object]) -> None:
        """Call the other end's handler, in order, without waiting for it."""
        self._send({"tell": name, "arguments": encode_frame(arguments)}, b"")

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

    def _send(self, message: object, body: bytes) -> None:
        text = json.dumps(message).encode()
        if len(text) > _MOST_JSON or len(body) > _MOST_BODY:
            raise InputError(f"a message of {len(text)} and {len(body)} bytes is too long")
        try:
            with self._sending:
                self._connection.sendall(_HEAD.pack(len(text), len(body)) + text + body)
        except OSError:
            raise _unavailable() from None

    def _receive(self, count: int) -> bytes:
        data = bytearray(count)
        done, view = 0, memoryview(data)
        while done < count:
            got = self._connection.recv_into(view[done:])
            if not got:
                raise EOFError
            done += got
        return bytes(data)

    def _run(self) -> None:
        try:
            while True:
                length, body_length = _HEAD.unpack(self._receive(_HEAD.size))
                if length > _MOST_JSON or body_length > _MOST_BODY:
                    raise InputError("a message is too long")
                self._take(json.loads(self._receive(length)), self._receive(body_length))
        except (EOFError, OSError):
            pass
        except Exception:
            _log.exception("the other process said what is no message")
        with self._changing:
            self._closed = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(_unavailable())
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._gone()

    def _take(self, message: Any, body: bytes) -> None:
        match message:
            case {"call": str(name), "id": int(number), "arguments": dict(arguments)}:
                work: Callable[[], object] = partial(self._handle, name, arguments, body)
                if name in self._prompt:
                    work = _begin_call(work)
                self._pool.submit(self._answer, number, work)
            case {"tell": str(name), "arguments": dict(arguments)}:
                self._handlers[name](arguments, body)
            case {"value": value, "bytes": True, "id": int(number)}:
                self._settle(number, lambda future: future.set_result(Answer(value, body)))
            case {"value": value, "id": int(number)}:
                self._settle(number, lambda future: future.set_result(value))
            case {"error": error, "id": int(number)}:
                decoded_error = decode_error(error)
                self._settle(number, lambda future: future.set_exception(decoded_error))
            case _:
                raise InputError("a message is none of a channel")

    def _settle(self, number: int, settle: Callable[[Future[Any]], None]) -> None:
        with self._changing:
            future = self._waiting.pop(number, None)
        # The caller may have timed out.
        if future is not None:
            settle(future)

    def _handle(self, name: str, arguments: dict[str, Any], body: bytes) -> object:
        return self._handlers[name](arguments, body)

    def _answer(self, number: int, work: Callable[[], object]) -> None:
        answer: dict[str, object]
        data = b""
        try:
            outcome = work()
            if isinstance(outcome, Answer):
                answer, data = {"value": encode_frame(outcome.value), "bytes": True}, outcome.body
            else:
                answer = {"value": encode_frame(outcome)}
        except Exception as error:
            answer = {"error": encode_error(error)}
        with suppress(UnavailableError):
            self._send({**answer, "id": number}, data)


def parts_of(body: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Split concatenated bytes; raises InputError if the lengths do not add up."""
    ends = list(itertools.accumulate(lengths, initial=0))
    if ends[-1] != len(body):
        raise InputError("a message has other bytes than it says")
    return [body[begin:end] for begin, end in itertools.pairwise(ends)]


def _begin_call(work: Callable[[], object]) -> Callable[[], object]:
    """Call a prompt handler; return the function that gives its value or raises its error."""
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
