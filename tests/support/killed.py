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
    """Runs a statement, which finds its arguments from sys.argv[2] on, whole paths, and kills the
    process at the system call of this number, of those that keep parts; it must not be over before.
    """
    script = _SCRIPT.format(imports=imports, statement=statement)
    words = [sys.executable, "-c", script, str(moment), *map(str, arguments)]
    done = subprocess.run(words, cwd=REPOSITORY, timeout=120)
    assert done.returncode == -signal.SIGKILL
