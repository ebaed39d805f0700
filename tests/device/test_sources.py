"""The digest of Quod's sources, and modules that change while a process runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quod.device.cache import sources


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "package"
    for folder in ("kernel", "field/deeper"):
        (root / folder).mkdir(parents=True)
        (root / folder / "one.py").write_text("one = 1\n")
        (root / folder / "two.py").write_text("two = 2\n")
    return root


WITHOUT = ("web", "absent")


def test_edits_change_the_digest(package: Path) -> None:
    seen = [sources.digest_of(package, WITHOUT)]

    def changed() -> bool:
        seen.append(sources.digest_of(package, WITHOUT))
        return seen[-1] not in seen[:-1]

    file = package / "field" / "deeper" / "one.py"
    before = file.stat()
    file.write_text("one = 7\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert changed()
    file.rename(file.with_name("three.py"))
    assert changed()
    (package / "kernel" / "new.py").write_text("")
    assert changed()
    (package / "kernel" / "two.py").unlink()
    assert changed()
    (package / "kernel" / "notes.txt").write_text("no code")
    assert not changed()
    (package / "kernel" / ".#one.py").symlink_to("nowhere")
    assert not changed()
    (package / "web").mkdir()
    (package / "web" / "one.py").write_text("no kernels here")
    assert not changed()
    for place in ("added", "field/web", "."):
        (package / place).mkdir(exist_ok=True)
        (package / place / "new.py").write_text("a module like any other")
        assert changed()


def test_swapped_file_contents_change_the_digest(package: Path) -> None:
    before = sources.digest_of(package, WITHOUT)
    first, second = package / "kernel" / "one.py", package / "kernel" / "two.py"
    a, b = first.read_text(), second.read_text()
    first.write_text(b)
    second.write_text(a)
    assert sources.digest_of(package, WITHOUT) != before


def test_only_kernels_in_digested_files_have_trace_keys() -> None:
    root = Path(sources.__file__).parents[2]
    modules = {path.relative_to(root).as_posix() for path in root.rglob("*.py")}
    for place in (*modules, "layered/a.py", "groth16/gpu/deeper/a.py", "a.py"):
        without = place.startswith(("cli/", "formats/", "web/"))
        assert sources.path_in_package(str(root / place)) == (None if without else place)
    assert sources.path_in_package(__file__) is None
    for place in ("//ntt/plan.py", "/./ntt/plan.py", "/field/../ntt/plan.py"):
        assert sources.path_in_package(f"{root}{place}") == "ntt/plan.py"
    assert sources.path_in_package(f"{root}//cli/entry.py") is None


def test_symlinks_in_the_package_are_outside_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest follows no symbolic link."""
    for folder in ("package", "outside"):
        (tmp_path / folder).mkdir()
    (tmp_path / "outside" / "mine.py").touch()
    (tmp_path / "package" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "package" / "file.py").symlink_to(tmp_path / "outside" / "mine.py")
    monkeypatch.setattr(sources, "_OWN", f"{tmp_path / 'package'}/")
    sources.path_in_package.cache_clear()
    for place in ("linked/mine.py", "file.py"):
        assert sources.path_in_package(str(tmp_path / "package" / place)) is None
    assert sources.path_in_package(str(tmp_path / "package" / "own.py")) == "own.py"
    sources.path_in_package.cache_clear()


def test_a_package_in_an_archive_is_hashed_as_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "quod.zip"
    archive.write_bytes(b"one")
    first = sources.digest_of(archive / "quod", WITHOUT)
    archive.write_bytes(b"two")
    assert sources.digest_of(archive / "quod", WITHOUT) != first


@pytest.mark.parametrize("failing", [False, True])
def test_a_child_process_computes_the_digest(failing: bool) -> None:
    script = (
        "import os\n"
        "from quod.device.cache import sources\n"
        "sources._cores = lambda: 2\n"
        "whole, parent = sources.state_of, os.getpid()\n"
        "def state_of(*arguments):\n"
        f"    assert not ({failing} and os.getpid() != parent)\n"
        f"    assert {failing} or os.getpid() != parent\n"
        "    return whole(*arguments)\n"
        "sources.state_of = state_of\n"
        "sources.begin_digest()\n"
        "print(sources.digest())\n"
        "try:\n"
        "    os.waitpid(-1, 0)\n"
        "except ChildProcessError:\n"
        "    print('no child is left')\n"
        "print(sources.are_unchanged())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split("\n") == [sources.digest(), "no child is left", "True", ""]


@pytest.mark.parametrize("change", ["edit", "restore", "add", "replace"])
def test_later_changes_of_modules_are_noticed(package: Path, change: str) -> None:
    before = sources.stamp_of(package, WITHOUT)
    assert sources.state_of(package, WITHOUT) == (sources.digest_of(package, WITHOUT), before)
    file = package / "kernel" / "one.py"
    status = file.stat()
    time.sleep(0.02)  # the resolution of a file system's times
    match change:
        case "edit":
            file.write_text("one = 7\n")
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "restore":
            content = file.read_text()
            file.write_text("one = 7\n")
            file.write_text(content)
        case "add":
            file.with_name("three.py").touch()
        case "replace":
            (package / "new").write_text("one = 7\n")
            os.utime(package / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
            (package / "new").replace(file)
    assert sources.stamp_of(package, WITHOUT) != before


# A kernel of a process that started before an edit, whose modules load after it.
EDITED = """
import sys
from pathlib import Path
import numpy as np
from quod.device import CpuDevice
from quod.device.cache import sources
from quod.kernel.examples import saxpy
edit = sys.argv[1] == "edit"
device = CpuDevice(strategy="scalar", threads=1)
device.has(saxpy)
assert "quod.field.strategies.saturated" not in sys.modules
path = Path(sources.__file__).parents[2] / "field" / "strategies" / "saturated.py"
content = path.read_text()
edited = content.replace('"sub", raised, b.limbs', '"add", raised, b.limbs')
assert content != edited
if edit:
    path.write_text(edited)
from quod.field.kernels import field_subtract
from quod.field.moduli import BN254_FR
kernel = device.compile(field_subtract, spec=BN254_FR)
if edit:
    path.write_text(content)
a, b, out = (np.zeros(8, np.uint32) for _ in range(3))
a[0], b[0] = 9, 2
device.launch(kernel, 1, 1, a, b, out)
print(out[0])
"""


def test_code_of_edited_sources_is_not_kept(tmp_path: Path) -> None:
    """A process with the sources from before the edit must not find it in the cache."""
    shutil.copytree(
        Path(sources.__file__).parents[2], tmp_path / "quod",
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "QUOD_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    results = [
        subprocess.run(
            [sys.executable, "-c", EDITED, word], env=environment, capture_output=True, text=True,
            check=True,
        ).stdout
        for word in ("edit", "leave")
    ]  # fmt: skip
    assert results == ["11\n", "7\n"]


def test_the_digest_is_cheap() -> None:
    times = []
    for _ in range(5):
        begin = time.process_time()
        sources.digest_of(Path(sources.__file__).parents[2], sources._NO_KERNELS)
        times.append(time.process_time() - begin)
    # About 4 ms.
    assert min(times) < 0.1
