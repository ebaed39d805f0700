"""The order of the help, hints for unknown commands, and counts with their nouns."""

from __future__ import annotations

import re

import pytest

from quod.cli import entry
from quod.cli.command_tree import COMMANDS
from quod.wording import counted


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Standard error as one line, without the frame around it."""
    return " ".join(re.sub(r"[^\x20-\x7e]", " ", capsys.readouterr().err).split())


def test_the_help_lists_every_command_in_its_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert entry.run(["--help"]) == 0
    listed = re.findall(r"^. ([a-z][a-z0-9-]*) {2,}\S", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(COMMANDS.commands)


PROVERS = "'quod groth16 prove', 'quod gkr prove', 'quod infer prove' or 'quod filecoin prove'"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("prove", PROVERS),
        ("prov", PROVERS),
        ("fullprove", "'quod groth16 fullprove'"),
        ("contribute", "'quod zkey contribute' or 'quod powersoftau contribute'"),
        ("solidityverifier", "'quod zkey export solidityverifier'"),
        ("calculate", "'quod wtns calculate'"),
        ("grot16", "'quod groth16' or 'quod bench groth16'"),
        ("serv", "'quod serve' or 'quod bench serve'"),
    ],
)
def test_unknown_command_suggests_one_from_a_group(
    word: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert entry.run([word, "a", "b"]) == 2
    assert f"No such command '{word}'. Did you mean {hint}?" in said(capsys)


def test_unrelated_word_has_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["xyzzy"]) == 2
    error = said(capsys)
    assert "No such command 'xyzzy'." in error
    assert "Did you mean" not in error


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 contributions"), (1, "1 contribution"), (2000, "2,000 contributions")],
)
def test_counts(number: int, text: str) -> None:
    assert counted(number, "contribution") == text
