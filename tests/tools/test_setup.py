"""The set-up of a fresh machine: packages of the system, and what an interrupted set-up leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "setup.sh"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script alone."""
    folder = tmp_path / "checkout"
    (folder / "tools").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "tools")
    return folder


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o700)


def test_system_packages_are_installed_by_a_single_process_at_a_time(
    checkout: Path, tmp_path: Path
) -> None:
    """apt-get ends with an error if another holds its lock."""
    programs, log = tmp_path / "programs", tmp_path / "log"
    for name in ("bash", "dirname", "flock", "mkdir", "rmdir", "sleep", "ls"):
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"needs {name}")
        programs.mkdir(exist_ok=True)
        (programs / name).symlink_to(path)
    program(programs, "id", "echo 0")
    lock = tmp_path / "lock"
    program(
        programs, "apt-get",
        f"mkdir {lock} || exit 100\nsleep 0.3\necho $1 >>{log}\nrmdir {lock}",
    )  # fmt: skip
    runs = [
        subprocess.Popen(
            [checkout / "tools" / "setup.sh", "arm"], env={"PATH": str(programs)},
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    outputs = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outputs
    assert log.read_text().split() == ["update", "install"] * 3


@pytest.mark.thorough
def test_an_environment_without_pip_is_completed(checkout: Path, tmp_path: Path) -> None:
    """An interrupted set-up leaves one; the next creates it again."""
    shutil.copy(SCRIPT.parents[1] / "constraints.txt", checkout)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    log, base = tmp_path / "log", getattr(sys, "_base_executable", sys.executable)
    program(tmp_path, "python", f'echo "$@" >>{log}\nexec {base} "$@"')
    subprocess.run(
        [checkout / "tools" / "setup.sh", "python", "run"], capture_output=True, check=False,
        env={**os.environ, "QUOD_PYTHON": str(tmp_path / "python"), "PIP_NO_INDEX": "1"},
    )  # fmt: skip
    assert "-m venv .venv" in log.read_text()
    pip = [checkout / ".venv" / "bin" / "python", "-m", "pip", "--version"]
    assert subprocess.run(pip, capture_output=True, check=False).returncode == 0
