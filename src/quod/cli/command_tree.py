"""The root of the command line: the order of its help, and hints for unknown commands."""

from __future__ import annotations

from typing import Any

import typer.core

from quod.names import nearest

ORDER = (
    "groth16", "wtns", "zkey", "powersoftau", "r1cs", "inspect", "export-web", "gkr", "sapling",
    "serve", "submit", "wait", "status", "cancel", "keys", "devices", "kernel", "bench",
)  # fmt: skip
"""Commands in the order of the help, by how often users need them."""


class RootGroup(typer.core.TyperGroup):
    """Lists commands by `ORDER`, and suggests subcommands for an unknown word."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help."""
        return sorted(self.commands, key=ORDER.index)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup`; the error for an unknown word suggests commands that end with it."""
        if args and args[0] not in self.commands:
            paths = self._paths(ctx)
            close = args[0] if args[0] in paths else nearest(args[0], paths)
            if close is not None:
                listed = " or ".join(f"'quod {path}'" for path in paths[close])
                ctx.fail(f"No such command {args[0]!r}. Did you mean {listed}?")
        return super().resolve_command(ctx, args)

    def _paths(self, ctx: Any) -> dict[str, list[str]]:
        """The paths of commands and groups, keyed by their last word."""
        paths: dict[str, list[str]] = {}

        def add(group: Any, before: str) -> None:
            for name in group.list_commands(ctx):
                path = f"{before}{name}"
                paths.setdefault(name, []).append(path)
                if isinstance(group.commands[name], typer.core.TyperGroup):
                    add(group.commands[name], f"{path} ")

        add(self, "")
        return paths
