"""The quod command. `main` is its entry point; exit codes are documented in docs/cli.md."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process."""
    try:
        # This import takes half of a short command's time, and Ctrl-C may arrive meanwhile.
        from quod.cli import entry

        entry.main(arguments)
    except KeyboardInterrupt:
        # Before a command has started or after it has ended.
        import os

        os.write(2, b"quod: interrupted\n")
        os._exit(130)
