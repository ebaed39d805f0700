"""docs/language.md and docs/kernel-ops.md: every snippet runs, and what they show is so."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from types import ModuleType
from typing import Any

import pytest

from quod.errors import KernelError
from quod.kernel.op_reference import render
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "language.md").read_text()
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(source: str, line: int, namespace: dict[str, Any]) -> str:
    """What a snippet prints, or the message of the error that it stops with.

    A snippet that begins with `# name.py` is a file of that name; the lines of any other are those
    of the page.
    """
    named = re.match(r"# (\w+\.py)\n", source)
    if named:
        code = compile(source, named.group(1), "exec")
    else:
        code = compile("\n" * line + source, "docs/language.md", "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, namespace)
        except KernelError as error:
            return f"{error}\n"
    return printed.getvalue().strip("\n") + "\n"


def test_language_page(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [
        (match.group(1), match.group(2), PAGE.count("\n", 0, match.start(2)))
        for match in _BLOCK.finditer(PAGE)
    ]
    assert {language for language, _, _ in blocks} == {"python", "text"}
    assert len(blocks) > 30
    module = ModuleType("docs_language")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace = vars(module)
    followers = [*blocks[1:], ("", "", 0)]
    for (language, source, line), (following, shown, _) in zip(blocks, followers, strict=True):
        if language == "python":
            expected = shown if following == "text" else "\n"
            assert run(source, line, namespace) == expected, f"docs/language.md:{line + 1}"


def test_lines_of_the_page() -> None:
    assert all(len(line) <= 110 or "mistake.py:" in line for line in PAGE.splitlines())


def test_ops_page_is_current() -> None:
    """To write it again: python -m quod.kernel.op_reference > docs/kernel-ops.md"""
    assert (REPOSITORY / "docs" / "kernel-ops.md").read_text() == render()


def test_a_snippet_that_fails_is_noticed() -> None:
    with pytest.raises(AssertionError):
        run("assert 1 == 2", 0, {})
    assert (
        run("# a.py\nfrom quod.errors import KernelError\nraise KernelError('no')", 0, {}) == "no\n"
    )
