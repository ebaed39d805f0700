"""Chromium's DevTools protocol over a pair of pipes, its file descriptors 3 and 4.

Messages are JSON texts that end with a zero byte (`--remote-debugging-pipe`). A browser whose pipes
close ends by itself, so that none outlives the tests that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]
Listener = Callable[[str, Message], None]


class DevToolsError(RuntimeError):
    """The browser refused a command, did not answer in time, or is gone."""


class DevTools:
    """A browser process and the commands that it takes.

    `program` is the browser with its options; the pipe and a temporary profile are added to them.
    """

    def __init__(self, program: Sequence[str], environment: dict[str, str]) -> None:
        self._profile = tempfile.TemporaryDirectory(
            prefix="quod-browser-", ignore_cleanup_errors=True
        )
        commands, self._to_browser = os.pipe()
        self._from_browser, answers = os.pipe()
        # Bash puts the pipes where the browser looks for them.
        launch = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        flags = ["--remote-debugging-pipe", f"--user-data-dir={self._profile.name}"]
        try:
            self._process = subprocess.Popen(
                ["bash", "-c", launch, "bash", str(commands), str(answers), *program, *flags],
                pass_fds=(commands, answers), start_new_session=True, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            os.close(commands)
            os.close(answers)
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, queue.SimpleQueue[Message]] = {}
        self._listeners: dict[str, Listener] = {}
        self._gone = False
        self._reader = threading.Thread(target=self._read, name="devtools", daemon=True)
        self._reader.start()

    def send(
        self, method: str, session: str | None = None, timeout: float = 300, **parameters: Any
    ) -> Message:
        """Send a command and give its result; DevToolsError says what went wrong."""
        answer: queue.SimpleQueue[Message] = queue.SimpleQueue()
        with self._lock:
            if self._gone:
                raise DevToolsError(f"{method}: the browser has ended")
            self._last += 1
            number = self._last
            self._waiting[number] = answer
            message: Message = {"id": number, "method": method, "params": parameters}
            if session is not None:
                message["sessionId"] = session
            try:
                self._write(json.dumps(message).encode() + b"\0")
            except OSError as error:
                del self._waiting[number]
                raise DevToolsError(f"{method}: the browser has ended") from error
        try:
            response = answer.get(timeout=timeout)
        except queue.Empty:
            raise DevToolsError(f"{method}: no answer within {timeout:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in response:
            raise DevToolsError(f"{method}: {response['error'].get('message', response['error'])}")
        result: Message = response["result"]
        return result

    def listen(self, session: str, listener: Listener) -> None:
        """Have `listener` called with the name and content of each event of a session.

        It is called on the thread that reads, and must not send commands.
        """
        with self._lock:
            self._listeners[session] = listener

    def close(self) -> None:
        """End the browser with all its processes, and remove its profile."""
        with contextlib.suppress(DevToolsError):
            self.send("Browser.close", timeout=5)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=5)
        os.close(self._to_browser)
        if not self._reader.is_alive():
            os.close(self._from_browser)
        self._profile.cleanup()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to_browser, data) :]

    def _read(self) -> None:
        kept = bytearray()
        while part := os.read(self._from_browser, 1 << 20):
            kept += part
            *texts, unfinished = kept.split(b"\0")
            kept = unfinished
            for text in texts:
                self._take(json.loads(text))
        with self._lock:
            self._gone = True
            waiting = list(self._waiting.values())
        for answer in waiting:
            answer.put({"error": {"message": "the browser has ended"}})

    def _take(self, message: Message) -> None:
        with self._lock:
            answer = self._waiting.get(message.get("id", -1))
            listener = self._listeners.get(message.get("sessionId", ""))
        if answer is not None:
            answer.put(message)
        elif listener is not None and "method" in message:
            listener(message["method"], message.get("params", {}))
