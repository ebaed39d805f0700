"""`make fuzz`: a little of it, and that it finds what is wrong with a parser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quod.errors import InputError
from tests.support.selection import runs_all

REPOSITORY = Path(__file__).resolve().parents[2]

# A parser that is broken in the way that its input says.
BROKEN = """
import sys, time
from quod.errors import InputError
from tools.fuzz import __main__ as fuzz
from tools.fuzz.mutations import of_bytes
from tools.fuzz.parsers import Parser

def read(data):
    if KIND == "refuses": raise InputError("no")
    if KIND == "chatters": raise InputError("no" * 5000)
    if KIND == "raises": raise IndexError("no")
    if KIND == "hangs":
        while True: pass
    if KIND == "grows": bytearray(600 << 20)
    if KIND == "dies": __import__("os").abort()

KIND = "takes"
fuzz.all_parsers = lambda: {"broken": Parser(lambda data: data and read(data), [b"seed"], of_bytes)}
def watch(own=fuzz.watch):
    global KIND
    own()
    KIND = sys.argv[1]
fuzz.watch = watch
fuzz.SECONDS = 0.2
sys.exit(fuzz.run(["broken"], 1, 4, 1))
"""


def run(*arguments: str, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip


@pytest.mark.thorough
def test_no_parser_fails_on_thousands_of_inputs(tmp_path: Path) -> None:
    inputs = 6000 if runs_all() else 2000
    done = run("-m", "tools.fuzz", "--inputs", str(inputs), "--seed", "7", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{inputs:,} inputs of seed 7: 0 failed" in done.stdout
    assert not any(tmp_path.iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("takes", None, marks=pytest.mark.thorough),
        pytest.param("refuses", None, marks=pytest.mark.thorough),
        pytest.param("chatters", "a message of 10000 characters", marks=pytest.mark.thorough),
        ("raises", "IndexError: no"),
        ("hangs", "took more than 0.2 s"),
        pytest.param("grows", "took more than 256 MB", marks=pytest.mark.thorough),
        pytest.param("dies", "the process ended with -6", marks=pytest.mark.thorough),
    ],
)
def test_failures_are_found_and_saved(tmp_path: Path, kind: str, said: str | None) -> None:
    done = run("-c", BROKEN, kind, folder=tmp_path)
    kept = list((tmp_path / "build").rglob("broken-1-*"))
    assert bool(kept) == bool(done.returncode) == (said is not None), done.stdout + done.stderr
    if said is not None:
        assert said in done.stdout
        assert f"FAILED build/fuzz/{sorted(kept)[0].name}" in done.stdout


def test_inputs_are_determined_by_seed_and_number() -> None:
    from tools.fuzz.__main__ import input_of
    from tools.fuzz.parsers import all_parsers

    parsers = all_parsers()
    for name, parser in parsers.items():
        first = [input_of(name, parser, 1, number) for number in range(20)]
        assert first == [input_of(name, parser, 1, number) for number in range(20)]
        assert first != [input_of(name, parser, 2, number) for number in range(20)]
        assert len({*first}) > 10
        accepts: Callable[[bytes], object] = parser.read
        for seed in parser.seeds:
            accepts(seed)
    assert issubclass(InputError, parsers["zkey"].refusals)
