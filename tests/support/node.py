"""The programs of others that tests run from build/node: snarkjs, circom2 and circomlibjs.

`make test` installs them (`tools/setup.sh node`) and sets QUOD_TEST_NODE=required, so that a test
which needs them fails where they are missing; elsewhere it is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.remembered import result_of

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "build" / "node" / "node_modules"


def program(name: str) -> str:
    """The path of `snarkjs` or `circom2`."""
    return _installed(name, PACKAGES / ".bin" / name)


def package(name: str) -> Path:
    """The folder of a package such as `circomlib`."""
    return Path(_installed(name, PACKAGES / name))


def type_errors(
    files: Sequence[Path], folder: Path, *, lib: Sequence[str], types: Sequence[str] = ()
) -> str:
    """The errors of TypeScript about some files; kept for files that are the same.

    folder: a temporary one.
    """
    compiler = program("tsc")
    config = {
        "compilerOptions": {
            "noEmit": True, "checkJs": True, "allowJs": True, "strict": True, "target": "es2023",
            "module": "es2022", "moduleResolution": "bundler", "skipLibCheck": True,
            "lib": ["es2023", "dom", "dom.iterable", *lib], "types": list(types),
            "typeRoots": [str(PACKAGES)],
        },
        "include": [str(file) for file in files],
    }  # fmt: skip
    (folder / "tsconfig.json").write_text(json.dumps(config))

    def compute() -> str:
        completed = subprocess.run(
            [compiler, "-p", str(folder)], capture_output=True, text=True, timeout=300, check=False
        )
        assert bool(completed.stdout) == bool(completed.returncode), completed.stderr
        return completed.stdout

    setup = (REPOSITORY / "tools" / "setup.sh").read_bytes()
    contents = [file.read_bytes() for file in files]
    return result_of(json.dumps(config), setup, *contents, compute=compute)


def circomlibjs(questions: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Ask circomlibjs questions, each a name in circomlib.mjs and its arguments.

    All in one process, which takes a second to load. Integers are sent and come as text.
    """
    package("circomlibjs")
    script = Path(__file__).with_name("circomlib.mjs")
    run = subprocess.run(
        ["node", str(script), str(PACKAGES)], input=json.dumps(_as_text(questions)),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    answers: list[Any] = json.loads(run.stdout)
    return answers


def _as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_text(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if type(value) is not int or abs(value) < 1 << 16 else str(value)


def _installed(name: str, path: Path) -> str:
    if not path.exists():
        message = f"{name} is not in build/node; run tools/setup.sh node"
        if os.environ.get("QUOD_TEST_NODE") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return str(path)


def run_program(
    name: str, *arguments: str | Path, directory: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `snarkjs` or `circom2`; the exit code is for the caller to look at."""
    command = [program(name), *map(str, arguments)]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=timeout, check=False
    )
