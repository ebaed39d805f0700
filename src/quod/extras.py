"""The command that installs an optional dependency group of pyproject.toml.

Every error about a missing optional package ends with the result of `installation`. When Quod is
released on a package index, change the command here and in docs/cli.md.
"""

from __future__ import annotations


def installation(extra: str) -> str:
    """Return the command that installs an extra, and the folder to run it in."""
    return f"run `pip install '.[{extra}]'` in a checkout of Quod"
