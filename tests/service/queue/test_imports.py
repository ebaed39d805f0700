"""A queue imports neither NumPy nor compilers, and psycopg only for Postgres."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.service.queue.crashing import REPOSITORY

_USE = """
import sys
from quod.service.queue import Submission, open_queue

with open_queue(sys.argv[1]) as queue:
    queue.submit(Submission("ann", "k", bytes(32), queue.blob_store.write(b"w")))
    [lease] = queue.claim("w")
    queue.finish(lease, b"proof")
print({"numpy", "llvmlite", "psycopg", "asyncio"} & {*sys.modules})
"""

_WITHOUT = """
import sys
from quod.service.queue import open_queue

sys.modules["psycopg"] = None
open_queue(sys.argv[1], database="postgresql:///none")
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=REPOSITORY, capture_output=True, text=True
    )


def test_queue_imports_few_modules(tmp_path: Path) -> None:
    done = run(_USE, tmp_path / "queue")
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_missing_psycopg_is_reported(tmp_path: Path) -> None:
    done = run(_WITHOUT, tmp_path / "queue")
    assert done.stderr.splitlines()[-1] == (
        "quod.errors.ServiceError: Postgres needs psycopg: run `pip install '.[postgres]'` in a "
        "checkout of Quod"
    )
