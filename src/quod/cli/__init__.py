"""The quod command. `main` is its entry point; exit codes are documented in docs/cli.md."""

from __future__ import annotations

import gc
import os
import sys

# Not the name of `typing`, and no import at run time: each takes a millisecond of every command.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process."""
    try:
        words = sys.argv[1:] if arguments is None else arguments
        if _names_helper(words):
            from quod.resident import client

            if client.is_wanted(words) and (code := client.run(words)) is not None:
                os._exit(code)
        # Imports create a hundred thousand permanent objects, whose cycle collection takes 45 ms.
        gc.set_threshold(100_000, 20, 20)
        # This import takes half of a short command's time, and Ctrl-C may arrive meanwhile.
        from quod.cli import entry

        entry.main(arguments)
    except KeyboardInterrupt:
        # Before a command has started or after it has ended.
        os.write(2, b"quod: interrupted\n")
        os._exit(130)


def _names_helper(words: Sequence[str]) -> bool:
    return "QUOD_RESIDENT" in os.environ or "--resident" in words
