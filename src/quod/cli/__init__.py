"""The quod command. `main` is its entry point; exit codes are documented in docs/cli.md."""

from __future__ import annotations

from quod.cli.entry import main

__all__ = ["main"]
