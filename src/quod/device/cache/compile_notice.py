"""The line on a terminal while kernels compile and no command shows its own progress.

Programs that call Quod from Python see it on standard error. It is drawn when a compilation begins
or ends, so it needs no thread, and it is erased while none runs. Nothing is written where standard
error is no terminal.
"""

from __future__ import annotations

import sys
from contextlib import suppress

COMPILING = "compiling kernels, once"
COMPILING_IN_EACH_RUN = "compiling kernels, in each run"
"""Used where compiled code cannot be kept; a warning of the cache gives the reason."""


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

        `total` has the kernels so far: nobody knows how many others follow, so that `done` of
        `total` would always look like the end.
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
