"""The table of a test run, from pytest's report of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

REPORT = """<testsuites><testsuite>
<testcase classname="tests.msm.sort.test_binning" name="test_a[1]" time="0.4" />
<testcase classname="tests.msm.sort.test_binning" name="test_a[2]" time="0.4" />
<testcase classname="tests.msm.sort.test_binning.TestMore" name="test_b" time="0.4">
  <failure /></testcase>
<testcase classname="tests.ntt.test_plan" name="test_c" time="0">
  <skipped message="120 bytes | of&#10;memory" /></testcase>
<testcase classname="tests.ntt.test_plan" name="test_d" time="0">
  <skipped message="7 bytes | of&#10;memory" /></testcase>
<testcase classname="" name="tests.web.test_site" time="0"><error /></testcase>
<testcase time="0.0" />
</testsuite></testsuites>
"""


def test_the_table(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    command = [sys.executable, str(REPOSITORY / "tools" / "table_of_tests.py")]
    command += [str(tmp_path / "report.xml"), "--on", "a GPU", "--commit", "abc"]
    command += ["--command", "make x", "--note", "At night."]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        "# Tests on a GPU", "", "Written by tools/table_of_tests.py.", "",
        "`make x`, commit abc. At night.", "",
        "| folder | passed | skipped | failed | seconds, all workers |",
        "|---|---|---|---|---|",
        "| tests/msm/sort | 2 | 0 | 1 | 1 |",
        "| tests/ntt | 0 | 2 | 0 | 0 |",
        "| tests/web | 0 | 0 | 1 | 0 |",
        "| **all** | 2 | 2 | 2 | 1 |", "",
        "Failed: tests.msm.sort.test_binning.TestMore::test_b.",
        "Failed: tests.web.test_site.", "",
        "| skipped | why |", "|---|---|", "| 2 | so many bytes / of memory |",
    ]  # fmt: skip
