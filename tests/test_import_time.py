"""Starting is cheap: `import quod` loads nothing heavy, and a command loads only what it uses."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import quod

HEAVY = ("numpy", "llvmlite", "rich", "typer", "asyncio", "pydantic")


def loaded_by(statement: str) -> set[str]:
    """The modules that are loaded in a new process after `statement`."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(done.stdout.splitlines()[-1].split())


def seconds_of(*arguments: str) -> float:
    """The best of five runs of the interpreter with these arguments."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def test_import_quod_loads_nothing_heavy() -> None:
    loaded = loaded_by("import quod")
    assert "quod.errors" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_version_is_answered_without_the_command_line() -> None:
    statement = "from quod.cli import entry; entry.run(['--version'])"
    assert loaded_by(statement).isdisjoint(HEAVY)


def test_the_command_line_loads_no_numbers_and_no_compiler() -> None:
    loaded = loaded_by("import quod.cli.app")
    assert "typer" in loaded
    assert loaded.isdisjoint({"numpy", "llvmlite", "rich.progress", "rich.table"})


def test_import_quod_takes_less_than_a_tenth_of_a_second() -> None:
    assert seconds_of("-c", "import quod") - seconds_of("-c", "pass") < 0.1


def test_version_takes_less_than_a_fifth_of_a_second() -> None:
    assert seconds_of("-m", "quod", "--version") < 0.2


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = quod.no_such_name  # type: ignore[attr-defined]
    assert not hasattr(quod, "_no_such_name")


def test_dir_lists_the_public_names() -> None:
    assert set(quod.__all__) <= set(dir(quod))
