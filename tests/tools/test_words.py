"""Checks of words and the wrapping of pages, on small texts, trees and repositories."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tools.words import (
    docstring_starts,
    long_subjects,
    main,
    page_hits,
    private_names,
    wide_lines,
)
from tools.wrap import ROOT, WIDTH, pages, rendered, wrap
from tools.wrap import main as wrap_main

PROSE = "Wires carry values between gates. " * 5


def names(source: str) -> list[str]:
    return [reason.split("`")[1] for _, reason in private_names(ast.parse(source))]


@pytest.mark.parametrize(
    "start",
    ["What", "Where a", "Who", "How far", "Whether it", "That", "The same.", "Of a", "\n  What"],
)
def test_docstrings_without_a_noun_are_reported(start: str) -> None:
    for source in (
        f'"""{start} b."""\n',
        f'class C:\n    """{start} b."""\n',
        f'def f():\n    async def g():\n        """{start} b."""\n',
        f'def f():\n    if x:\n        y = 1\n        """{start} b."""\n',
        f'try:\n    pass\nexcept E:\n    y = 1\n    """{start} b."""\n',
    ):
        ((line, reason),) = docstring_starts(ast.parse(source))
        assert start.split()[0] in reason
        assert source.splitlines()[line - 1].lstrip().startswith('"""')


@pytest.mark.parametrize(
    "text", ["Whatever it is", "Offsets of a", "The sameness", "Howl", "Return what it is", "what"]
)
def test_other_docstrings_are_not_reported(text: str) -> None:
    assert list(docstring_starts(ast.parse(f'def f():\n    """{text} b."""\n'))) == []
    assert list(docstring_starts(ast.parse('f("What is it?")\nx = """Where"""\n'))) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("found = 1", ["found"]),
        ("own: int = 1", ["own"]),
        ("own += 1", ["own"]),
        ("a, (given, *rest) = b", ["given", "rest"]),
        ("for made in a: pass", ["made"]),
        ("with a as whole: pass", ["whole"]),
        ("[known for known in a]", ["known"]),
        ("{a: begun for a, begun in b}", ["begun"]),
        ("print(more := 1)", ["more"]),
        ("def f(by, *found, own=1, **given): pass", ["by", "found", "own", "given"]),
        ("a = lambda made: made", ["made"]),
        ("try: pass\nexcept E as found: pass", ["found"]),
        ("match a:\n case [1, *rest]: pass\n case known: pass", ["rest", "known"]),
        ("class C:\n def f(self, found): pass", ["found"]),
        ("def f():\n found = 1\n def g():\n  found = 2", ["found", "found"]),
        ("class C:\n more: int\n left = 1\n def own(self): pass", []),
        ("a.found = 1\nb[whole] = made\nf(given=own)", []),
        ("found_keys = founded = 1", []),
        ("left, right = a", []),
        ("def f(left, right): pass", []),
        ("for left, right in a: pass", []),
        ("left = 1", ["left"]),
        ("right = 1\ndef f(left): pass", ["left"]),
        ("one = field.one", []),
        ("zero, one = f.zero, f.one(k)", []),
        ("one = k.constant(1, FR)", []),
        ("one = builder.constant(1)", []),
        ("one = k.constant(16)", ["one"]),
        ("one = field.one_hot", ["one"]),
        ("a = [one.one for one in b]", ["one"]),
        ("for one in field.one: pass", ["one"]),
        ("def f(one): pass", ["one"]),
    ],
)
def test_names_that_do_not_say_what_a_value_is(source: str, expected: list[str]) -> None:
    assert sorted(names(source)) == sorted(expected)


def test_only_prose_that_could_be_broken_is_too_wide() -> None:
    wide = PROSE.strip()
    for page in (f"{wide}\n", f"- a\n\n  {wide}\n", f"1. {wide}\n", f"> {wide}\n"):
        ((line, width),) = wide_lines(page)
        assert (line, width) == (page.count("\n"), len(page.splitlines()[-1]))
        assert wide_lines(wrap(page)) == []
    link, code = f"https://example.org/{'a' * WIDTH}", f"`{wide}`"
    for page in (
        f"# {wide}\n", f"{wide}\n===\n", f"```\n{wide}\n```\n", f"    {wide}\n", f"<p>{wide}</p>\n",
        f"<!-- {wide} -->\n", f"| a |\n|---|\n| {wide} |\n", f"[a]\n\n[a]: {link} \"{wide}\"\n",
        f"- [a]({link}).\n", f"See\n<{link}>\nand\n{code},\nb\n", f"---\nsummary: {wide}\n---\n",
    ):  # fmt: skip
        assert wide_lines(page) == []
        if "See" not in page:
            assert wrap(page) == page


def test_pages_that_are_checked(tmp_path: Path) -> None:
    checked = ("README.md", "CHANGELOG.md", "docs/a.md", "docs/design/b.md")
    for name in (*checked, "docs/kernel-ops.md", "docs/benchmarks.md", "tests/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# A\n\n{PROSE}\n")
    assert {str(hit) for hit in page_hits(tmp_path)} == {
        f"{name}:3: {len(PROSE)} columns, 100 allowed" for name in checked
    }
    assert wrap_main([], tmp_path) == 0
    assert page_hits(tmp_path) == []
    assert (tmp_path / "tests" / "a.md").read_text().endswith(f"{PROSE}\n")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a\nb\n\nc\n", "a b\n\nc\n"),
        (f"- {'a ' * 49}b\n- c\nd\n", f"- {'a ' * 48}a\n  b\n- c d\n"),
        (f"10. {'a ' * 48}b\n", f"10. {'a ' * 47}a\n    b\n"),
        (f"- - {'a ' * 48}b\n", f"- - {'a ' * 47}a\n    b\n"),
        (f"> {'a ' * 49}b\n", f"> {'a ' * 48}a\n> b\n"),
        (f"- > {'a ' * 48}b\n", f"- > {'a ' * 47}a\n  > b\n"),
        (f"- {'a ' * 20}\n\n  b\n  c\n", f"- {'a ' * 20}".rstrip() + "\n\n  b c\n"),
        (f"{'a ' * 48}`b\nc`\n", f"{'a ' * 48}".rstrip() + "\n`b c`\n"),
        (f"{'a ' * 48}[b c](d 'e')\n", f"{'a ' * 48}[b\nc](d 'e')\n"),
        # A line that started with these would start a list, a quote, a heading, a table or HTML.
        *(
            (f"{'a ' * 49}b {mark} c\n", f"{'a ' * 48}a\nb {mark} c\n")
            for mark in ("-", "+", "*", "1.", "2)", ">", ">b", "#", "---", "=", "<div>", "```")
        ),
        ("a  \nb\nc\n", "a  \nb\nc\n"),
        ("a\\\nb\nc\n", "a\\\nb\nc\n"),
        ("| a | b |\n|---|---|\n| c | d |\ne\n", "| a | b |\n|---|---|\n| c | d |\ne\n"),
    ],
)
def test_wrapped_pages(page: str, expected: str) -> None:
    assert wrap(page) == expected
    assert wrap(expected) == expected
    assert rendered(expected) == rendered(page)


def test_wrapping_changes_no_text_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.wrap.WIDTH", 60)  # pages are wrapped at 100 columns already
    texts = {path: path.read_text() for path in pages(ROOT)}
    assert len(texts) > 40
    for path, page in texts.items():
        wrapped = wrap(page)
        assert len(page) > 20_000 or wrap(wrapped) == wrapped, path  # long ones take seconds
        assert rendered(wrapped) == rendered(page), path


def test_a_page_that_would_render_differently_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("a\nb\n")
    monkeypatch.setattr("tools.wrap.wrap", lambda page: page + "c\n")
    assert wrap_main([], tmp_path) == 1
    assert "differently" in capsys.readouterr().out
    assert (tmp_path / "README.md").read_text() == "a\nb\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository without commits, and a git that reads no settings of the user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, subject: str) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", f"{subject}\n\n{PROSE}")


def test_subjects_of_a_branch_are_checked(repository: Path) -> None:
    assert long_subjects(repository) == []
    commit(repository, "a" * 80)
    commit(repository, "b" * 72)
    assert long_subjects(repository) == []
    git(repository, "switch", "--quiet", "--create", "work")
    commit(repository, "c" * 73)
    commit(repository, "d")
    (report,) = long_subjects(repository)
    assert report.endswith(f": subject of 73 characters, 72 allowed: {'c' * 73}")
    git(repository, "switch", "--quiet", "main")
    commit(repository, "e" * 99)
    git(repository, "switch", "--quiet", "work")
    git(repository, "merge", "--quiet", "main", "--message", "f" * 99)
    assert long_subjects(repository) == [report]


def test_unpushed_subjects_are_checked(repository: Path) -> None:
    commit(repository, "a" * 80)
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(repository, "b" * 80)
    commit(repository, "c")
    assert len(long_subjects(repository)) == 1


def test_without_a_base_only_the_last_subject_is_checked(repository: Path, tmp_path: Path) -> None:
    commit(repository, "a" * 80)
    commit(repository, "b" * 80)
    assert len(long_subjects(repository)) == 1
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "branch", "--delete", "--force", "main")
    assert len(long_subjects(repository)) == 1
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    assert len(long_subjects(tmp_path / "shallow")) == 1


def test_missing_git_history_passes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "a" * 80)
    (repository / "archive").mkdir()
    assert long_subjects(repository / "archive") == []
    monkeypatch.setenv("PATH", "")
    assert long_subjects(repository) == []
    assert main(repository) == 0


def test_every_hit_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    modules = {
        "src/quod/gkr/keys.py": "x = 1\nfound = 2\n",
        "src/quod/service/quod_pb2.py": "found = 1\n",
        "tests/msm/test_a.py": "'''How'''\n",
    }
    for name, text in modules.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "README.md").write_text(f"{PROSE}\n")
    assert main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "src/quod/gkr/keys.py:2: name `found` does not say what the value is",
        'tests/msm/test_a.py:1: docstring starts with "How", not with a noun or verb',
        f"README.md:1: {len(PROSE)} columns, 100 allowed",
    ]
    (tmp_path / "src/quod/gkr/keys.py").write_text("x = 1\n")
    (tmp_path / "tests/msm/test_a.py").write_text("")
    (tmp_path / "README.md").write_text("")
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == ""
