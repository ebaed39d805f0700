"""The duplicate report compares behaviour, and ignores names and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import duplicates

FIRST = '''
def total(rows):
    """What they come to."""
    found = []
    for row in rows:
        if row.weight > {limit}:
            raise ValueError("too heavy")
        found.append(row.weight)
    return sum(found)
'''
RENAMED = """
import math

class Basket:
    limit: int

    def check(self, apples):
        seen = []
        for apple in apples:
            if apple.weight > 3:
                raise ValueError("an apple that nobody can lift")
            seen.append(apple.weight)
        return sum(seen)
"""


def found(folder: Path, *texts: str) -> list[duplicates.DuplicateRun]:
    files = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.py"
        path.write_text(text)
        files.append(duplicates.statements(path))
    return list(duplicates.duplicates(files))


def test_renamed_code_is_a_duplicate(tmp_path: Path) -> None:
    (twins,) = found(tmp_path, FIRST.format(limit=3), RENAMED)
    assert (twins.path.name, twins.twin.path.name) == ("1.py", "0.py")
    assert (twins.first, twins.last, twins.count) == (8, 13, 6)


@pytest.mark.parametrize(
    "other",
    [
        FIRST.format(limit=4),  # does another thing
        FIRST.format(limit=3).replace("row.weight", "row.price"),
        FIRST.format(limit=3).replace("in rows:", "in found:"),
        FIRST.format(limit=3).replace("    raise", "    pass\n        raise"),  # outside of the if
    ],
)
def test_different_code_is_not_a_duplicate(other: str, tmp_path: Path) -> None:
    assert found(tmp_path, FIRST.format(limit=3), other) == []


def test_table_is_not_a_duplicate_of_itself(tmp_path: Path) -> None:
    table = "".join(
        f"rows.append((row, {number % 2}))\n" for number in range(duplicates.MIN_STATEMENTS)
    )
    assert found(tmp_path, table) == []
    assert found(tmp_path, "rows.append(0)\n" * (2 * duplicates.MIN_STATEMENTS - 1)) == []
    assert len(found(tmp_path, "rows.append(0)\n" * 3 * duplicates.MIN_STATEMENTS)) == 1


def test_field_declarations_are_not_duplicates(tmp_path: Path) -> None:
    classes = "".join(f"class C{number}(Base):\n    field: int\n" for number in range(12))
    assert found(tmp_path, classes, classes) == []
    with_methods = classes.replace("    field: int\n", "    def get(self): return self.field\n")
    assert found(tmp_path, with_methods, with_methods)


def test_more_than_recorded_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, settings = tmp_path / "src", tmp_path / "pyproject.toml"
    source.mkdir()
    (source / "a.py").write_text(FIRST.format(limit=3))
    (source / "b.py").write_text(RENAMED)
    monkeypatch.setattr(duplicates, "ROOT", tmp_path)
    monkeypatch.setattr(duplicates, "SETTINGS", settings)
    settings.write_text("[tool.quod]\nduplicates = 5\n")
    assert duplicates.main([]) == 1
    assert "   6 src/b.py:8-13 ~ src/a.py:4\n" in capsys.readouterr().out
    settings.write_text("[tool.quod]\nduplicates = 9\n")
    assert duplicates.main(["--record"]) == 0
    assert settings.read_text() == "[tool.quod]\nduplicates = 6\n"
    assert duplicates.main([]) == 0
