"""docs/language.md, running-kernels.md and kernel-ops.md: snippets run, and show real output."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from types import ModuleType
from typing import Any

import pytest

from quod.errors import KernelError
from quod.kernel.ops.reference import render
from tests.conftest import REPOSITORY

PAGES = {
    name: (REPOSITORY / "docs" / name).read_text()
    for name in ("language.md", "running-kernels.md", "fields-and-curves-in-kernels.md")
}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(source: str, line: int, namespace: dict[str, Any], page: str = "a page") -> str:
    """Return the output of a snippet, or the message of the error that it stops with.

    A snippet that begins with `# name.py` is a file of that name; the lines of any other are those
    of the page.
    """
    named = re.match(r"# (\w+\.py)\n", source)
    if named:
        code = compile(source, named.group(1), "exec")
    else:
        code = compile("\n" * line + source, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, namespace)
        except KernelError as error:
            return f"{error}\n"
    return printed.getvalue().strip("\n") + "\n"


@pytest.mark.parametrize(
    ("name", "least"),
    [("language.md", 30), ("running-kernels.md", 10), ("fields-and-curves-in-kernels.md", 3)],
)
def test_documentation_snippets_run(name: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGES[name]
    blocks = [
        (match.group(1), match.group(2), page.count("\n", 0, match.start(2)))
        for match in _BLOCK.finditer(page)
    ]
    assert {language for language, _, _ in blocks} <= {"python", "text"}
    assert len(blocks) > least
    module = ModuleType("docs_language")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace = vars(module)
    followers = [*blocks[1:], ("", "", 0)]
    for (language, source, line), (following, shown, _) in zip(blocks, followers, strict=True):
        if language == "python":
            expected = shown if following == "text" else "\n"
            output = run(source, line, namespace, f"docs/{name}")
            assert output == expected, f"docs/{name}:{line + 1}"


def test_documentation_lines_are_short() -> None:
    for page in PAGES.values():
        assert all(
            len(line) <= 110 or "mistake.py:" in line or line.startswith("|")
            for line in page.splitlines()
        )


def test_ops_page_is_up_to_date() -> None:
    """To write it again: python -m quod.kernel.ops.reference > docs/kernel-ops.md"""
    assert (REPOSITORY / "docs" / "kernel-ops.md").read_text() == render()


def test_failing_snippets_are_detected() -> None:
    with pytest.raises(AssertionError):
        run("assert 1 == 2", 0, {})
    assert (
        run("# a.py\nfrom quod.errors import KernelError\nraise KernelError('no')", 0, {}) == "no\n"
    )
