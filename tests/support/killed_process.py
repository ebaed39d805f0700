"""Processes that are killed in the middle of writing a result in parts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.node import REPOSITORY

_SCRIPT = """
import os, signal, sys
from quod.formats import resumable
{imports}
left = int(sys.argv[1])
resumable.SECONDS_BETWEEN = -1.0

def killing(call):
    def counted(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return counted

for name in ("fsync", "write", "pread", "replace"):
    setattr(os, name, killing(getattr(os, name)))
{statement}
"""


def kill_within(imports: str, statement: str, moment: int, *arguments: Path) -> None:
    """Run a statement in a process, and kill the process at its `moment`-th system call on files.

    The statement reads its arguments, absolute paths, from sys.argv[2] on. The test fails if the
    process ends before that system call.
    """
    script = _SCRIPT.format(imports=imports, statement=statement)
    words = [sys.executable, "-c", script, str(moment), *map(str, arguments)]
    done = subprocess.run(words, cwd=REPOSITORY, timeout=120)
    assert done.returncode == -signal.SIGKILL
