"""A line on the terminal while kernels compile, unless a command shows its own progress.

Programs that call Quod from Python see the line on standard error. It is drawn when a compilation
starts or ends, so no thread is needed, and erased while no kernel compiles. Nothing is written if
standard error is not a terminal.
"""

from __future__ import annotations

import sys
from contextlib import suppress

COMPILING = "compiling kernels, once"
COMPILING_IN_EACH_RUN = "compiling kernels, in each run"
"""The text if compiled code cannot be cached; a warning of the cache gives the reason."""


def compiling_text() -> str:
    """Return the text of the notice, which says whether later runs must compile again."""
    from quod.device.cache.cache import CompileCache

    return COMPILING if CompileCache().keeps() else COMPILING_IN_EACH_RUN


class CompileNotice:
    """The line of one process; `Compilations` calls it under a lock."""

    def __init__(self) -> None:
        self._text = ""
        self._columns = 0

    def __call__(self, done: int, total: int) -> None:
        """Draw the counts, or erase the line if all kernels are done.

        `total` counts the kernels requested so far. How many will follow is unknown, so the line
        does not show "done of total", which would always look nearly finished.
        """
        if done == total:
            self.erase()
            return
        self._text = self._text or compiling_text()
        line = f"quod: {self._text}: {done} done, {total - done} in progress"
        if _write(f"\r{line:{self._columns}}"):
            self._columns = len(line)

    def erase(self) -> None:
        """Erase the line, if it is shown."""
        if self._columns:
            _write(f"\r{'':{self._columns}}\r")
            self._columns = 0


def _write(text: str) -> bool:
    """Write to standard error if it is a terminal; return whether that succeeded."""
    stream = sys.stderr
    # The terminal may be gone, or the program may have closed or replaced the stream.
    with suppress(OSError, ValueError, AttributeError):
        if stream.isatty():
            stream.write(text)
            stream.flush()
            return True
    return False
