"""The comparison of test suites by mutants, on a package of a few lines."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tools.mutants.__main__ import main
from tools.mutants.candidates import draw, locate, read, write
from tools.mutants.mutations import choose, mutations
from tools.mutants.record import CaseResult, Record
from tools.mutants.run import Runner, Suite, mutant_of
from tools.mutants.tree_copy import KILLED, SURVIVED, TIMEOUT, Verdict, verdict_of

SOURCE = '''"""A toy package."""

import functools

LIMIT = 3


def clamp(value: int) -> int:
    """Bound a value."""
    if value > LIMIT:
        return LIMIT
    return value + 0


def spin() -> None:
    count = 0
    while count < 3:
        count += 1


def child() -> int:
    return 7


def shared() -> int:
    return 40 + 2


def unused() -> int:
    return 1 * 1


class Adder:
    step = 1 + 1

    def add(self, value: int) -> int:
        if value is None:
            raise ValueError(f"no {value}")
        return self.step + value
'''

TESTS = """
import subprocess, sys
import pytest
from quod.toy import Adder, clamp, shared, spin

@pytest.fixture(scope="module")
def answer():
    return shared()

def test_clamp():
    assert clamp(5) == 3
    assert clamp(1) == 1

def test_spin():
    spin()

def test_child():
    code = "from quod.toy import child; raise SystemExit(child())"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7

def test_first(answer):
    pass

def test_second(answer):
    assert answer == 42

def test_failing():
    assert clamp(0) == 1

def test_adder():
    assert Adder().add(1) == 3
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one module and its tests; the user's cache of kernels is left alone."""
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    # The suites of these tests need no plugins, and start in half the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return tree_at(tmp_path / "old", "toy.py", TESTS)


def tree_at(root: Path, module: str, tests: str) -> Path:
    (root / "src" / "quod").mkdir(parents=True)
    (root / "src" / "quod" / "__init__.py").touch()
    (root / "src" / "quod" / module).write_text(SOURCE)
    (root / "tests").mkdir()
    (root / "tests" / "test_toy.py").write_text(tests)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    return root


def record(tree: Path, candidates: Path, out: Path, *arguments: str) -> Record:
    """Record a tree's suite and read the record."""
    options = ["--tree", str(tree), "--candidates", str(candidates), "--out", str(out)]
    assert main(["record", *options, "--", "-q", "-p", "no:cacheprovider", *arguments]) == 0
    return Record.read(out)


def drawn(tree: Path, out: Path) -> Path:
    """Draw all candidates of a tree."""
    assert main(["draw", "--tree", str(tree), "--seed", "1", "--out", str(out)]) == 0
    return out


def test_candidates_are_statements_of_functions_that_a_mutation_can_change(tree: Path) -> None:
    texts = {row.text for row in draw(tree, 100, seed=1)}
    assert texts == {
        "if value > LIMIT:", "return LIMIT", "return value + 0", "count = 0", "while count < 3:",
        "count += 1", "return 7", "return 40 + 2", "return 1 * 1", "if value is None:",
        'raise ValueError(f"no {value}")', "return self.step + value",
    }  # fmt: skip


def test_draw_is_determined_by_the_seed(tree: Path) -> None:
    assert draw(tree, 5, seed=1) == draw(tree, 5, seed=1) != draw(tree, 5, seed=2)


def test_a_candidate_is_found_in_a_moved_module(tree: Path, tmp_path: Path) -> None:
    candidates = draw(tree, 100, seed=1)
    moved = tree_at(tmp_path / "new", "room.py", TESTS)
    (moved / "src/quod/room.py").write_text("import os\n" + SOURCE.replace("return 7", "return 8"))
    for candidate, place in zip(candidates, locate(moved, candidates), strict=True):
        if candidate.text == "return 7":
            assert place is None
        else:
            assert place is not None
            assert (place.path, place.line) == ("src/quod/room.py", candidate.line + 1)


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("if a < b: pass", ["if (not (a < b)): pass", "if (a >= b): pass"]),
        ("x += 1", ["x -= 1", "x += (2)"]),
        ("x = 'a' + y", ["x = (None)"]),
        ("return True", ["return (False)"]),
        ("assert a or b, f'{1 + 1}'", ["assert (a and b), f'{1 + 1}'"]),
        ("raise ValueError('a' * 2)", ["pass"]),
        ("f(lambda: 1)", ["pass"]),
        ("for i in range(n): pass", ["for i in (()): pass"]),
        ("continue", ["break"]),
        ("import os", []),
        ("'text'", []),
        ("pass", []),
    ],
)
def test_mutations(statement: str, changed: list[str]) -> None:
    (node,) = ast.parse(statement).body
    assert [mutation.apply(statement) for mutation in mutations(node)] == changed


def test_a_mutation_keeps_the_lines_of_its_file() -> None:
    source = "é = (1,\n     2)\nf(\n    a\n    + b,\n)\n"
    for node in ast.parse(source).body:
        for mutation in mutations(node):
            changed = mutation.apply(source)
            assert changed != source
            assert [row.lineno for row in ast.parse(changed).body] == [1, 3]
            assert changed.count("\n") == source.count("\n")


def test_choice_is_determined_by_its_random_numbers() -> None:
    (node,) = ast.parse("x = a + b * 3 < c").body
    choices = {choose(node, Random(number)) for number in range(40)}
    assert choose(node, Random(3)) in choices
    assert "assigned value replaced" not in {mutation.rule for mutation in choices}


@pytest.mark.parametrize(
    "arguments",
    [(), pytest.param(("-p", "xdist", "-n", "2"), marks=pytest.mark.thorough)],
    ids=["one process", "xdist"],
)
def test_a_record_has_the_tests_of_each_candidate(
    tree: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    candidates = drawn(tree, tmp_path / "candidates.json")
    result = record(tree, candidates, tmp_path / "old.json", *arguments)
    covering = {
        row.text: {name.partition("::")[2] for name in names}
        for row, names in zip(result.candidates, result.covering, strict=True)
    }
    assert covering["return LIMIT"] == {"test_clamp"}
    assert covering["return value + 0"] == {"test_clamp", "test_failing"}
    assert covering["return 7"] == {"test_child"}
    assert covering["return 40 + 2"] == {"test_first", "test_second"}
    assert covering["return 1 * 1"] == set()
    number = [row.text for row in result.candidates].index("return value + 0")
    assert result.killers(number) == ["tests/test_toy.py::test_clamp"]
    assert result.tests["tests/test_toy.py::test_failing"].outcome == "failed"
    assert len(result.tests) == 7


def test_killed_run_keeps_its_records(tree: Path, tmp_path: Path) -> None:
    (tree / "tests" / "test_zz.py").write_text("import os\ndef test_end():\n    os._exit(9)\n")
    candidates = drawn(tree, tmp_path / "candidates.json")
    first = record(tree, candidates, tmp_path / "old.json")
    assert len(first.tests) == 7
    raw = tmp_path / "old.raw"
    with next((raw / "tests").iterdir()).open("a") as file:
        file.write('{"test": "cut')
    assert main(["merge", "--raw", str(raw), "--out", str(tmp_path / "again.json")]) == 0
    assert Record.read(tmp_path / "again.json") == first


@pytest.mark.thorough
def test_a_weaker_suite_is_reported(
    tree: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    weak = TESTS.replace("assert answer == 42", "pass").replace("quod.toy", "quod.room")
    new = tree_at(tmp_path / "new", "room.py", weak)
    (new / "src/quod/room.py").write_text(SOURCE.replace("return 7", "return 8"))
    candidates = drawn(tree, tmp_path / "candidates.json")
    wanted = {"return 40 + 2", "return LIMIT", "return 7"}
    rows = [row for row in read(candidates) if row.text in wanted]
    write(candidates, rows)
    record(tree, candidates, tmp_path / "old.json")
    record(new, candidates, tmp_path / "new.json")
    command = [
        "run", "--record", str(tmp_path / "old.json"), "--record", str(tmp_path / "new.json"),
        "--old-tree", str(tree), "--new-tree", str(new), "--limit", "20",
        "--out", str(tmp_path / "results.jsonl"),
    ]  # fmt: skip
    assert main(command) == 1
    text = capfd.readouterr().out
    assert "2 mutants, 1 absent: old kills 2, 0 of them by timeout; new kills 1," in text
    assert "new misses 1 that old kills" in text
    # The second run computes nothing, and says the same.
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert main(command) == 1
    assert (tmp_path / "results.jsonl").read_text().splitlines() == lines
    assert (tree / "src/quod/toy.py").read_text() == SOURCE


BEGIN = {"test": "a", "step": "begin", "time": 100.0}
PASSED = [
    {"test": "a", "step": "setup", "failed": False},
    {"test": "a", "step": "call", "failed": False},
    {"test": "a", "step": "teardown", "failed": False},
]
FAILED = {"test": "a", "step": "call", "failed": True}


@pytest.mark.parametrize(
    ("steps", "code", "now", "verdict"),
    [
        ([BEGIN, *PASSED], 0, 101.0, Verdict(SURVIVED, ran=1)),
        ([BEGIN, FAILED], 1, 101.0, Verdict(KILLED, "a")),
        ([BEGIN], -11, 101.0, Verdict(KILLED, "a")),
        ([], 2, 101.0, Verdict(KILLED)),
        ([BEGIN], None, 141.0, Verdict(TIMEOUT, "a")),
        ([BEGIN], None, 139.0, Verdict(SURVIVED)),
        ([BEGIN, *PASSED], None, 500.0, Verdict(SURVIVED, ran=1)),
        ([], None, 101.0, Verdict(TIMEOUT)),
    ],
)
def test_verdicts(
    steps: list[dict[str, object]], code: int | None, now: float, verdict: Verdict
) -> None:
    assert verdict_of(steps, {"a": 1.0}, code, now) == verdict


def test_other_tests_of_the_same_files_come_in_their_order() -> None:
    tests = {
        "a.py::slow": CaseResult("passed", 2.0), "a.py::quick": CaseResult("passed", 1.0),
        "a.py::failing": CaseResult("failed", 0.1), "b.py::other": CaseResult("passed", 0.1),
        "a.py::covering": CaseResult("passed", 3.0),
    }  # fmt: skip
    result = Record([], [], tests, [])
    assert result.others_of_files(["a.py::covering"]) == ["a.py::quick", "a.py::slow"]


def test_mutant_requires_the_recorded_tree_but_any_python(tree: Path) -> None:
    candidate = draw(tree, 1, seed=1)[0]
    mutant = mutant_of(tree, 0, replace(candidate, statement="in another form"), seed=1)
    assert mutant.source != SOURCE
    with pytest.raises(ValueError, match=r"is not the recorded tree: src/quod/toy\.py:\d+ differs"):
        mutant_of(tree, 0, replace(candidate, text="other"), seed=1)


def test_failure_of_the_original_is_not_a_kill(tree: Path, tmp_path: Path) -> None:
    name = "tests/test_toy.py::test_failing"
    candidate = next(row for row in draw(tree, 100, seed=1) if row.text == "if value > LIMIT:")
    result = Record([candidate], [candidate], {name: CaseResult("passed", 0.1)}, [[name]])
    suite = Suite("old", tree, result)
    runner = Runner([suite], 60, whole_files=False)
    try:
        outcome = runner.run(suite, mutant_of(tree, 0, candidate, seed=1))
    finally:
        runner.close()
    assert (outcome.outcome, outcome.ran, outcome.of) == (SURVIVED, 0, 1)
