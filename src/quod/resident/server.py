"""The helper's process: it answers connections, and runs one command at a time.

A thread for each connection reads the request, and then reports each second that the helper runs.
The main thread runs the commands. A client that closes its connection interrupts its command as
Ctrl-C does. Interrupted code may leave locks and caches in any state, so the helper then ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from quod import __version__
from quod.resident import frames, listener
from quod.resident.frames import FrameError, FrameReader, Request
from quod.resident.output import Output
from quod.resident.runtime_folder import check_peer
from quod.resident.surroundings import difference, surroundings

if TYPE_CHECKING:
    from quod.resident.commands import CommandRunner

IDLE_SECONDS = 600.0
"""The time without a command after which a helper ends."""

HEARTBEAT_SECONDS = 1.0
_CLIENT_SECONDS = 5.0
"""The time in which a client sends its request, and takes each frame of the answer."""
_MAX_CONNECTIONS = 64
_QUIET_SECONDS = 1.0
"""The time without a command after which garbage is collected."""
_INTERRUPTED, _TERMINATED = 130, 143


class _Job:
    """A command of a connection.

    is_done: the answer was sent.
    is_cancelled: the client has gone.
    """

    def __init__(self, request: Request, connection: socket.socket) -> None:
        self.request, self.output = request, Output()
        self._connection = connection
        self._lock = threading.Lock()
        self.is_done = self.is_cancelled = False

    def beat(self) -> None:
        """Report that the helper works, and send the text so far."""
        with self._lock:
            if not self.is_done:
                self._send([*self.output.take_frames(), frames.frame(frames.ALIVE)])

    def end(self, code: int) -> None:
        """Send the remaining text and the exit code."""
        last = frames.frame(frames.ENDED, bytes([code]))
        with self._lock:
            self._send([*self.output.take_frames(), last])
            self.is_done = True

    def decline(self, reason: str) -> None:
        """Have the client run the command."""
        payload = reason.encode(errors="backslashreplace")[: frames.MAX_BYTES]
        with self._lock:
            self._send([frames.frame(frames.DECLINED, payload)])
            self.is_done = True

    def _send(self, data: list[bytes]) -> None:
        try:
            self._connection.sendall(b"".join(data))
        except OSError:
            self.is_cancelled = True


class Server:
    """A helper that accepts connections of a listening socket.

    folder: a descriptor of the folder with the socket.
    make_runner: returns the runner of commands. The main thread calls it, for the first command:
        its imports take longer than the start of a process.
    """

    def __init__(
        self, accepting: socket.socket, folder: int, make_runner: Callable[[], CommandRunner],
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:  # fmt: skip
        self._accepting, self._folder, self._make_runner = accepting, folder, make_runner
        self._idle_seconds = idle_seconds
        self._identity, self._surroundings = listener.identity(folder), surroundings()
        self._runner: CommandRunner | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: _Job | None = None
        self._is_ending = False
        self._connections = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._commands = 0

    def serve(self) -> None:
        """Run commands until the helper is idle, stopped or interrupted."""
        signal.signal(signal.SIGTERM, self._terminate)
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        try:
            while not self._is_ending:
                job = self._next_job()
                if job is None:
                    break
                self._run(job)
        except (queue.Empty, KeyboardInterrupt, SystemExit):
            pass
        self._end()

    # --- the main thread

    def _next_job(self) -> _Job | None:
        """Wait for a job; None if the helper was stopped. Raises queue.Empty once it is idle."""
        quiet_seconds = min(_QUIET_SECONDS, self._idle_seconds)
        with contextlib.suppress(queue.Empty):
            return self._jobs.get(timeout=quiet_seconds)
        # Proofs leave cycles of objects with arrays; between proofs a collection delays nobody.
        gc.collect()
        return self._jobs.get(timeout=self._idle_seconds - quiet_seconds)

    def _run(self, job: _Job) -> None:
        from quod.resident.commands import Declined

        with self._lock:
            if job.is_cancelled:
                return
            self._running = job
        try:
            if self._runner is None:
                self._runner = self._make_runner()
            code = self._runner.run(job.request, job.output)
        except Declined as declined:
            self._stop_running()
            job.decline(str(declined))
            return
        except Exception as error:
            self._stop_running()
            # In the log.
            traceback.print_exc()
            self._is_ending = True
            job.decline(f"failed ({error})")
            return
        self._stop_running()
        self._commands += 1
        self._is_ending |= code in (_INTERRUPTED, _TERMINATED)
        if code == _TERMINATED:
            job.decline("was terminated")
        else:
            job.end(code)

    def _stop_running(self) -> None:
        with self._lock:
            self._running = None

    def _end(self) -> None:
        """Remove the socket, then decline the commands that wait or have just connected."""
        self._is_ending = True
        with contextlib.suppress(OSError):
            listener.remove(self._folder, self._identity)
        end = time.monotonic() + HEARTBEAT_SECONDS / 2
        while (seconds := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=seconds)
                if job is not None:
                    job.decline("")

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._is_ending = True
        raise SystemExit(_TERMINATED)

    # --- the threads of connections

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                connection, _ = self._accepting.accept()
                if not self._connections.acquire(blocking=False):
                    connection.close()
                    continue
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_CLIENT_SECONDS)
                check_peer(connection)
                connection.sendall(frames.GREETING)
                reader = FrameReader(connection.recv)
                reader.greet()
                self._answer(connection, *reader.read())
        except (FrameError, OSError):
            # Nothing can be said to a client that is gone or speaks another protocol.
            pass
        finally:
            self._connections.release()

    def _answer(self, connection: socket.socket, kind: int, payload: bytes) -> None:
        if kind == frames.RUN:
            job = _Job(Request.decode(payload), connection)
            name = difference(job.request.surroundings, self._surroundings)
            if name:
                job.decline(
                    f"was started in other surroundings ({name}); `quod resident stop` ends it"
                )
                return
            self._jobs.put(job)
            self._watch(job, connection)
        elif kind in (frames.STATUS, frames.STOP):
            if kind == frames.STOP:
                # The next command starts another helper.
                listener.remove(self._folder, self._identity)
                self._jobs.put(None)
            text = frames.frame(frames.STDOUT, self._status().encode(errors="backslashreplace"))
            connection.sendall(text + frames.frame(frames.ENDED, b"\0"))
        else:
            raise FrameError("a client sends no such frame")

    def _watch(self, job: _Job, connection: socket.socket) -> None:
        """Report each second that the helper works, until the answer is sent or the client goes."""
        while not job.is_done:
            readable, _, _ = select.select([connection], [], [], HEARTBEAT_SECONDS)
            if not readable:
                job.beat()
            # A client that sends more than a request is not a client either.
            if readable or job.is_cancelled:
                self._cancel(job)
                break
        # An interrupted command still has a last line and an exit code.
        while self._running is job:
            time.sleep(HEARTBEAT_SECONDS / 20)

    def _cancel(self, job: _Job) -> None:
        with self._lock:
            job.is_cancelled = True
            if self._running is job:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)

    def _status(self) -> str:
        runner = self._runner
        keys = [] if runner is None else runner.keys.describe()
        state = "runs a command" if self._running is not None else "is idle"
        first = f"Quod {__version__}, process {os.getpid()}, {state}; commands: {self._commands}"
        return "\n".join([first, *keys]) + "\n"
