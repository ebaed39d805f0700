"""The benchmark against the prize entry: its repair, and what is said of what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quod.errors import InputError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from browser_msm.entry import REPAIRS, SUBMISSION, bundle, repaired  # noqa: E402


def test_entry_source_is_patched_in_three_places() -> None:
    text = "\n".join(["before", *REPAIRS, "after"])
    assert repaired(text).splitlines() == ["before", *REPAIRS.values(), "after"]


@pytest.mark.parametrize("line", REPAIRS)
def test_another_version_of_the_entry_is_refused(line: str) -> None:
    others = [other for other in REPAIRS if other != line]
    for text in ("\n".join(others), "\n".join([*REPAIRS, line])):
        with pytest.raises(InputError, match="does not have the line"):
            repaired(text)


def test_missing_files_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "entry"
    with pytest.raises(InputError, match=r"there is no .*submission\.ts; README"):
        bundle(folder, tmp_path / "out.js", repair=True)
    (folder / SUBMISSION).parent.mkdir(parents=True)
    (folder / SUBMISSION).write_text("")
    with pytest.raises(InputError, match="there is no esbuild"):
        bundle(folder, tmp_path / "out.js", repair=True)
