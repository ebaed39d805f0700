"""A file of the package is one concept, and short enough to be read in one go."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

MAX_LINES = 500


def test_source_files_are_short() -> None:
    lines = {
        path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines())
        for path in (SOURCE / "quod").rglob("*.py")
    }
    assert len(lines) > 200
    long = {name: count for name, count in lines.items() if count > MAX_LINES}
    assert long == {}, "split these by concept"
