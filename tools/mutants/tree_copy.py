"""A copy of a tree that holds one mutant at a time and runs its tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quod.device.cache.cache import default_folder
from tools.mutants import selection_plugin
from tools.mutants.record import ROOT

KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"

_LINKED = (".venv", "build")
_LEFT_OUT = shutil.ignore_patterns(".git", ".*_cache", ".hypothesis", *_LINKED)

# The cache key of compiled code is a digest of its text. A mutant of the device code does not
# change the text, and does not run if the entry exists, so it needs an empty cache.
_COLD = "src/quod/device/"

# A test hangs if it takes ten times the recorded seconds, and half a minute more.
_FACTOR = 10.0
_PATIENCE = 30.0


@dataclass(frozen=True)
class Verdict:
    """The outcome of the tests of a mutant.

    outcome: KILLED if a test failed, TIMEOUT if one hangs, otherwise SURVIVED.
    test: the test that failed or hangs; empty if none, or if the tests did not start.
    ran: the number of tests that passed.
    """

    outcome: str
    test: str = ""
    ran: int = 0


class TreeCopy:
    """A copy of a tree. Each mutant in it has its own cache of compiled kernels."""

    def __init__(self, tree: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._tree = self._folder / "tree"
        self._cache: Path | None = None
        shutil.copytree(tree, self._tree, symlinks=True, ignore=_LEFT_OUT)
        for name in _LINKED:
            if (tree / name).exists():
                (self._tree / name).symlink_to((tree / name).resolve())
        repository = tree / ".git"
        if repository.is_dir():
            (self._tree / ".git").write_text(f"gitdir: {repository.resolve()}\n")
        elif repository.is_file():
            shutil.copy(repository, self._tree / ".git")

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def changed(self, path: str, source: str) -> Iterator[None]:
        """Replace a file's source, and copy the user's cache of compiled kernels.

        A mutant of the compiler writes wrong code into its cache, which no other run may read.
        """
        file = self._tree / path
        original = file.read_text()
        self._cache = self._folder / "cache"
        kept = default_folder()
        try:
            if path.startswith(_COLD) or not kept.is_dir():
                self._cache.mkdir(mode=0o700)
            else:
                # Entries are replaced and never written in place, so links are enough.
                shutil.copytree(kept, self._cache, copy_function=_link)
            _replace(file, source)
            yield
        finally:
            _replace(file, original)
            shutil.rmtree(self._cache, ignore_errors=True)
            self._cache = None

    def test(self, tests: Mapping[str, float], limit: float) -> Verdict:
        """Run tests, by id with the recorded seconds, until one fails or the time is over."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            scratch = Path(name)
            code = self._run(scratch, list(tests), limit)
            return verdict_of(_rows(scratch / "steps"), tests, code, time.time())

    def collects(self, tests: Sequence[str], limit: float) -> bool:
        """Return whether pytest finds tests in the files of these without an error."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            return self._run(Path(name), tests, limit, "--collect-only") == 0

    def _run(self, scratch: Path, tests: Sequence[str], limit: float, *options: str) -> int | None:
        """Return the exit code of pytest, None if the time was over."""
        (scratch / "tests").write_text("".join(f"{name}\n" for name in tests))
        (scratch / "steps").touch()
        (scratch / "tmp").mkdir()
        outer = os.environ.get("PYTHONPATH")
        paths = [str(self._tree / "src"), *([outer] if outer else []), str(ROOT)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": str(scratch / "tmp"),
            selection_plugin.TESTS: str(scratch / "tests"),
            selection_plugin.STEPS: str(scratch / "steps"),
        }
        if self._cache is not None:
            environment["QUOD_CACHE_DIR"] = str(self._cache)
        files = dict.fromkeys(name.partition("::")[0] for name in tests)
        process = subprocess.Popen(
            [
                sys.executable, "-m", "pytest", "-p", "tools.mutants.selection_plugin",
                "-p", "no:cacheprovider", "-x", "-q", *options, *files,
            ],
            cwd=self._tree, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # What a test leaves behind is killed too, after the end of pytest itself.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _replace(file: Path, source: str) -> None:
    file.write_text(source)
    # Python takes bytecode for fresh if the source has the same size and the same second.
    for bytecode in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        bytecode.unlink()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        pass  # evicted by another process
    except OSError:
        shutil.copy2(source, target)


def _rows(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def verdict_of(
    rows: Sequence[Mapping[str, Any]], seconds: Mapping[str, float], code: int | None, now: float
) -> Verdict:
    """Return what the steps of some tests and the exit code of pytest mean.

    `seconds` has the recorded duration of each test, and `now` is the time at which pytest ended;
    it was killed if `code` is None.
    """
    running, begin, ran = "", now, 0
    for row in rows:
        match row["step"]:
            case "begin":
                running, begin = row["test"], row["time"]
            case "teardown" if not row["failed"]:
                running, ran = "", ran + 1
        if row.get("failed"):
            return Verdict(KILLED, row["test"], ran)
    if code is None:
        # Where no test has begun, the package hangs when it is imported.
        hangs = not rows or (running and now - begin > _FACTOR * seconds[running] + _PATIENCE)
        return Verdict(TIMEOUT, running, ran) if hangs else Verdict(SURVIVED, ran=ran)
    # 5: none of the tests exists in the changed tree.
    return Verdict(SURVIVED, ran=ran) if code == 0 else Verdict(KILLED, running, ran)
