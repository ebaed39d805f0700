"""Declarations of options become typer's: limits, checks, names of the environment, groups."""

from __future__ import annotations

from typing import Annotated

import pytest

from quod.cli.options import typer_group
from quod.cli.parameters import Group, Option, WrongUsage

CALLS: list[tuple[int, int, str]] = []


def _even(value: int) -> None:
    if value % 2:
        raise WrongUsage(f"{value} is odd")


def measure(
    size: Annotated[int, Option(least=1, most=3)] = 1,
    pairs: Annotated[int, Option("--of", check=_even)] = 0,
    server: Annotated[str, Option(environment="QUOD_TEST_SERVER")] = "here",
) -> None:
    """Measure."""
    if size == 2:
        raise WrongUsage("two is none of them")
    CALLS.append((size, pairs, server))


APP = typer_group(Group("Test.", {"deep": Group("Inner.", {"take-it": measure})}))


def run(*words: str) -> int:
    CALLS.clear()
    try:
        APP(args=["deep", "take-it", *words], prog_name="t")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_values_reach_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (run("--size", "3", "--of", "4"), CALLS) == (0, [(3, 4, "here")])
    monkeypatch.setenv("QUOD_TEST_SERVER", "there")
    assert (run(), CALLS) == (0, [(1, 0, "there")])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "0"), "Invalid value for '--size'"),
        (("--size", "4"), "Invalid value for '--size'"),
        (("--of", "3"), "Invalid value for '--of': 3 is odd"),
        (("--size", "2"), "Invalid value: two is none of them"),
    ],
)
def test_wrong_values_are_usage_errors(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert (run(*words), CALLS) == (2, [])
    assert message in capsys.readouterr().err
