"""The quick parser accepts a subset of typer's command lines, with the same results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from quod.cli import quick
from quod.cli.groth16 import commands as groth16
from quod.cli.options import typer_command

FILES = ["c.zkey", "w.wtns", "proof.json", "public.json"]


def by_typer(command: Callable[..., None], words: list[str]) -> dict[str, Any] | None:
    """Return the arguments that typer calls the command with; None if it does not call it."""
    calls: list[dict[str, Any]] = []

    @functools.wraps(command)
    def record(**values: Any) -> None:
        calls.append(values)

    app = typer.Typer(add_completion=False)
    app.command()(typer_command(record))
    try:
        app(args=words, standalone_mode=False)
    except Exception:
        return None
    return calls[0] if calls else None


PLAIN = [
    FILES,
    [*FILES, "--quiet"],
    ["-q", *FILES],
    [*FILES[:2], "--device", "cpu:scalar", *FILES[2:]],
    [*FILES, "--device=cuda:1", "--seed", "7", "--no-self-check", "--timings"],
    [*FILES, "--seed=0012", "--self-check", "--trace", "t.json"],
    ["a b", "ä.wtns", "/tmp/x", "./y"],
]
ODD = [
    [],
    FILES[:3],
    [*FILES, "more"],
    [*FILES, "--help"],
    [*FILES, "--seed", "x"],
    [*FILES, "--seed", "-7"],
    [*FILES, "--seed", "1_000"],
    [*FILES, "--seed", "٣"],
    [*FILES, "--seed"],
    [*FILES, "--seed", "1", "--seed", "2"],
    [*FILES, "--quiet=1"],
    [*FILES, "-q=1"],
    [*FILES, "-qq"],
    [*FILES, "--qui"],
    ["--", *FILES],
    ["-", *FILES[1:]],
    ["", *FILES[1:]],
    [*FILES, "--device", ""],
    [*FILES, "--no-quiet"],
    [*FILES, "--no-such-option"],
]


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_quick_parser_agrees_with_typer(words: list[str]) -> None:
    values = quick.parse(groth16.prove, words)
    assert values is not None
    taken = by_typer(groth16.prove, words)
    assert taken is not None
    assert values == {name: taken[name] for name in values}
    defaults = groth16.prove.__defaults__ or ()
    assert [taken[name] for name in taken if name not in values] == [
        default
        for name, default in zip(list(taken)[-len(defaults) :], defaults)
        if name not in values
    ]
    assert [type(value) for value in values.values()] == [type(taken[name]) for name in values]


@pytest.mark.parametrize("words", ODD, ids=" ".join)
def test_unsupported_words_fall_back_to_typer(words: list[str]) -> None:
    assert quick.parse(groth16.prove, words) is None


def test_quick_parser_handles_verify() -> None:
    words = ["vkey.json", "public.json", "proof.json", "-q"]
    assert quick.parse(groth16.verify, words) == {
        "vkey": Path("vkey.json"),
        "public": Path("public.json"),
        "proof": Path("proof.json"),
        "quiet": True,
    }
