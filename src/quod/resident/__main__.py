"""The program of a helper: ``python -m quod.resident DESCRIPTOR [IDLE_SECONDS]``.

`quod.resident.listener` starts it. DESCRIPTOR is the socket that it listens on.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from quod.cli.display.streams import prepare_streams
from quod.resident.runtime_folder import open_folder
from quod.resident.server import IDLE_SECONDS, Server

if TYPE_CHECKING:
    from quod.resident.commands import CommandRunner


def main() -> None:
    """Run a helper until it ends."""
    # The client may have blocked or ignored them.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    prepare_streams()
    # As `quod.cli.main` and `quod.cli.entry.main` do, and for the same reasons.
    gc.set_threshold(100_000, 20, 20)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    accepting = socket.socket(fileno=int(sys.argv[1]))
    idle_seconds = float(sys.argv[2]) if len(sys.argv) > 2 else IDLE_SECONDS
    Server(accepting, open_folder(create=False), _runner, idle_seconds).serve()
    # Shutting the interpreter and its threads down would take longer, and may hang.
    os._exit(0)


def _runner() -> CommandRunner:
    from quod.resident.commands import CommandRunner

    return CommandRunner()


if __name__ == "__main__":
    main()
