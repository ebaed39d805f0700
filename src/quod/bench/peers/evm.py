"""Contracts in an Ethereum VM: solc and @ethereumjs/evm of build/node, in a node process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from quod.errors import QuodError

_DRIVER = Path(__file__).with_name("evm.mjs")


class Call(TypedDict):
    """A call of a contract's function: hexadecimal data and the gas limit."""

    function: str
    data: str
    gas: int


def call(function: str, data: str, gas: int = 30_000_000) -> Call:
    """Build a call; the default gas limit is that of a block."""
    return {"function": function, "data": data, "gas": gas}


class Job(TypedDict):
    """A contract to compile, deploy and call.

    imports: other sources by name.
    via_ir: use the compiler's IR pipeline.
    """

    source: str
    contract: str
    optimizer: bool
    hardfork: str
    calls: Sequence[Call]
    imports: NotRequired[Mapping[str, str]]
    via_ir: NotRequired[bool]


def why_no_evm() -> str | None:
    """Return the reason why contracts cannot run here, or None."""
    if shutil.which("node") is None:
        return "node is not on the PATH"
    if not all((_packages() / "node_modules" / name).exists() for name in ("solc", "@ethereumjs")):
        return "solc and @ethereumjs/evm are not in build/node; run tools/setup.sh node"
    return None


def run_contracts(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Compile, deploy and call contracts; return a dictionary for each.

    Keys: `warnings`, `methods` with their selectors, `code_bytes`, `deploy_gas`, and `calls` with
    `returned`, execution `gas` and `error`. Raises QuodError if a contract does not compile.
    """
    # solc is a large WebAssembly module that runs once: optimising it costs more than it saves.
    finished = subprocess.run(
        ["node", "--liftoff-only", str(_DRIVER), str(_packages())], input=json.dumps(jobs),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if finished.returncode:
        raise QuodError(f"the contracts could not be run: {finished.stderr.strip()[-500:]}")
    results: list[dict[str, Any]] = json.loads(finished.stdout)
    return results


def _packages() -> Path:
    return Path(__file__).resolve().parents[4] / "build" / "node"
