"""Each subject of quod bench measures the thing it says, and refuses what it does not know."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import fields

import pytest

from quod.cli import entry
from quod.cli.bench.settings import Settings, StagedSettings, subject_command
from quod.cli.bench.subjects import SUBJECTS

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]


def test_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "field", "--field", "bn254.fr", *ONCE]) == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)
    threads = sorted({1, len(os.sched_getaffinity(0))})
    assert [row["parameters"]["threads"] for row in rows] == threads
    for row in rows:
        assert (row["subject"], row["unit"]) == ("field", "ns/product")
        assert row["parameters"]["field"] == "bn254.fr"
        # Between a product that nobody has reached and one in plain Python.
        assert 0.05 < row["median"] < 2000
    assert captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["field", "--field", "bn254.fx"], 3, "'bn254.fx' is not a field; there are bn254.fq"),
        (["field", "--device", "quantum"], 7, "quantum"),
        (["field", "--field", "bn254.fr", "--against", "nobody"], 3, "'nobody' is not a peer"),
        (["field", "--repeats", "0"], 2, "Usage"),
    ],
)
def test_refusals(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", *arguments]) == code
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_every_subject_has_its_own_options_and_the_shared_ones(
    subject: Callable[..., None],
) -> None:
    kind = Settings if subject.__name__ == "process" else StagedSettings
    own = list(inspect.signature(subject).parameters)[1:]
    shared = [field.name for field in fields(kind) if field.init]
    assert list(inspect.signature(subject_command(subject)).parameters) == own + shared
    assert {"device", "record"} <= set(shared)
    assert not set(own) & set(shared)
    assert ("plot" in shared) == (kind is StagedSettings)
