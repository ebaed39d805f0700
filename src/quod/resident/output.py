"""The text that a command prints in the helper, on its way to the client."""

from __future__ import annotations

import io
import threading

from quod.resident import frames


class Output:
    """The text of both standard streams, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: list[tuple[int, str]] = []
        self.stdout, self.stderr = _Stream(self, frames.STDOUT), _Stream(self, frames.STDERR)

    def add(self, kind: int, text: str) -> None:
        """Add text to a stream; `kind` is that of its frames."""
        with self._lock:
            self._texts.append((kind, text))

    def take_frames(self) -> list[bytes]:
        """Return the text so far as frames, and remove it."""
        data = []
        for kind, text in self._take():
            encoded = text.encode(errors="backslashreplace")
            data += [
                frames.frame(kind, encoded[start : start + frames.MAX_BYTES])
                for start in range(0, len(encoded), frames.MAX_BYTES)
            ]
        return data

    def last_line(self) -> str:
        """Return the last line so far without the name of the program, and remove the text."""
        lines = "".join(text for _, text in self._take()).splitlines()
        return lines[-1].removeprefix("quod: ") if lines else ""

    def _take(self) -> list[tuple[int, str]]:
        with self._lock:
            texts, self._texts = self._texts, []
            return texts


class _Stream(io.TextIOBase):
    """A text stream of an `Output`."""

    def __init__(self, output: Output, kind: int) -> None:
        self._output, self._kind = output, kind

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._output.add(self._kind, text)
        return len(text)
