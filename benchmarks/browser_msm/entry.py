"""Bundle the prize entry as one browser script. README.md says how to get its sources."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from quod.errors import InputError

SUBMISSION = Path("src/submission/submission.ts")

REPAIRS = {
    "const chunk_size = input_size >= 65536 ? 16 : 4;": (
        "const chunk_size = input_size >= 65536 ? 16 : 8;"
    ),
    "const num_subtask_chunk_size = 4;": (
        "const num_subtask_chunk_size = chunk_size === 16 ? 4 : num_subtasks;"
    ),
    "const b_workgroup_size = 256;": (
        "const b_workgroup_size = chunk_size === 16 ? 256 : 32;"
    ),
}  # fmt: skip
"""Replacements of three constants that the entry needs below 2**16 points; see README.md."""

_MAIN = """\
export {{ compute_msm }} from {source!r};
export {{ Buffer }};
"""
_NODE = """\
import { Buffer } from "buffer";
export { Buffer };
export const process = { env: {} };
"""


def repaired(text: str) -> str:
    """Replace the three constants; InputError unless each occurs exactly once."""
    for line, other in REPAIRS.items():
        if text.count(line) != 1:
            raise InputError(f"the entry's {SUBMISSION} does not have the line {line!r} once")
        text = text.replace(line, other)
    return text


def bundle(folder: Path, script: Path, *, repair: bool) -> None:
    """Writes the entry in `folder`, with what it needs of npm's packages, to one script.

    InputError says what is missing.
    """
    if not (folder / SUBMISSION).is_file():
        raise InputError(f"there is no {SUBMISSION}; README.md says which entry it is", path=folder)
    esbuild = _esbuild(folder)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        # Beside the entry, so that it finds the same packages.
        copy = Path(name)
        shutil.copytree(folder / "src", copy / "src")
        if repair:
            text = (copy / SUBMISSION).read_text()
            (copy / SUBMISSION).write_text(repaired(text))
        (copy / "node.js").write_text(_NODE)
        (copy / "main.js").write_text(_MAIN.format(source=f"./{SUBMISSION}"))
        done = subprocess.run(
            [
                str(esbuild), "main.js", "--bundle", "--format=esm", "--target=esnext",
                "--loader:.wgsl=text", "--define:global=globalThis", "--inject:node.js",
                f"--outfile={script.resolve()}", "--log-level=error",
            ],
            cwd=copy, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    if done.returncode:
        raise InputError(f"esbuild does not bundle the entry: {done.stderr.strip()}", path=folder)


def _esbuild(folder: Path) -> Path:
    for parent in (folder.resolve(), *folder.resolve().parents):
        program = parent / "node_modules" / ".bin" / "esbuild"
        if program.exists():
            return program
    raise InputError("there is no esbuild; README.md has the command that installs it", path=folder)
