"""A private cluster of Postgres in a temporary folder, without a network, for as long as tests run.

with Cluster() as cluster:
    psycopg.connect(cluster.url)
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_USER = "postgres"


def why_no_postgres() -> str | None:
    """Reason that Postgres cannot run here, or None."""
    if _binaries() is None:
        return "no Postgres: its programs are not installed (Debian: apt-get install postgresql)"
    if importlib.util.find_spec("psycopg") is None:
        return "no Postgres: psycopg is not installed (pip install '.[postgres]')"
    return None


def _binaries() -> Path | None:
    """The folder of initdb and postgres; Debian keeps it out of PATH."""
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


class Cluster:
    """Started when it is made; as the user postgres where tests run as root, whom it refuses."""

    def __init__(self) -> None:
        binaries = _binaries()
        assert binaries is not None
        self._binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="quod-pg-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self._folder, _USER)
            self._as = {"user": _USER, "group": _USER, "extra_groups": []}
        self._data = self._folder / "data"
        subprocess.run(
            [binaries / "initdb", "-D", self._data, "-A", "trust", "-U", "quod", "--no-sync"],
            check=True, capture_output=True, cwd="/", **self._as,
        )  # fmt: skip
        self.url = f"postgresql://quod@/postgres?host={self._folder}"
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        import psycopg

        # Nothing here survives the machine, so that the disk need not be waited for.
        options = {
            "listen_addresses": "", "unix_socket_directories": str(self._folder), "fsync": "off",
            "max_connections": "60",
        }  # fmt: skip
        option_words = [
            word for name, value in options.items() for word in ("-c", f"{name}={value}")
        ]
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", self._data, *option_words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self._as,
        )  # fmt: skip
        limit = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > limit or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def kill(self) -> None:
        """Ends the server as a crash does: it recovers at the next `start`."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
