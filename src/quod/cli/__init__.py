"""The quod command. `main` is its entry point; exit codes are documented in docs/cli.md."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process."""
    try:
        # Half of a short command's time; Ctrl-C may come meanwhile.
        from quod.cli import entry

        entry.main(arguments)
    except KeyboardInterrupt:
        # Before a command began, or once it was over.
        import os

        os.write(2, b"quod: interrupted\n")
        os._exit(130)
