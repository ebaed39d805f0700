"""quod bench msm checks what it measures, knows its peer and refuses what it does not know."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from quod.cli import entry
from quod.curve.groups import GROUPS
from quod.errors import QuodError
from tests.support.thorough import one_and_others

# The package's own name `msm` is the command.
subject = importlib.import_module("quod.bench.arithmetic.msm")

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert entry.run(["bench", "msm", *arguments, *ONCE]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    rows: list[dict[str, Any]] = json.loads(captured.out)
    return rows


@pytest.mark.parametrize("kind", subject.KINDS)
def test_every_kind_of_scalars(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    rows = rows_of(capsys, "--curve", "bn254", "--log2", "6", "--log2", "7", "--scalars", kind)
    assert {row["parameters"]["log2"] for row in rows} == {6, 7}
    for row in rows:
        assert row["parameters"]["group"] == "bn254.g1"
        assert row["parameters"]["scalars"] == kind
        assert row["unit"] == "ms"
        assert 0.01 < row["median"] < 10_000


@pytest.mark.thorough
@pytest.mark.parametrize("group", one_and_others(["g1", "g2"]))
def test_the_peer_on_one_thread(capsys: pytest.CaptureFixture[str], group: str) -> None:
    rows = rows_of(capsys, "--group", group, "--log2", "6", "--against", "arkworks")
    assert [row["parameters"]["threads"] for row in rows] == [1]
    assert rows[0]["peer"] == "arkworks"
    assert rows[0]["ratio"] == pytest.approx(rows[0]["peer_median"] / rows[0]["median"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("curve", "group"),
    one_and_others([("secp256k1", "secp256k1"), ("jubjub", "jubjub.weierstrass")]),
)
def test_curves_without_a_pairing(
    capsys: pytest.CaptureFixture[str], curve: str, group: str
) -> None:
    rows = rows_of(capsys, "--curve", curve, "--log2", "5")
    assert {row["parameters"]["group"] for row in rows} == {group}


def test_generated_scalars_match_their_kind() -> None:
    group = GROUPS["bn254.g1"]
    count = 64
    scalars = {
        kind: [row.tobytes() for row in subject._scalars(group, kind, count)]
        for kind in subject.KINDS
    }
    assert len(set(scalars["uniform"])) == count
    assert set(scalars["bits"]) == {bytes(32), b"\1" + bytes(31)}
    assert len(set(scalars["equal"])) == 1
    assert 2 < len(set(scalars["giant"])) <= count // 16 + 1


def test_a_wrong_result_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "msm", lambda *_: (1, 2))
    with pytest.raises(QuodError, match=r"an MSM over bn254\.g1 is wrong"):
        next(subject.cases("cpu", "bn254", "g1", [4]))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--curve", "bn255"], "'bn255' is not a curve; choose one of bn254, bls12_381, "),
        (["--group", "g3"], "'g3' is not a group of bls12_381; choose g1 or g2"),
        (["--scalars", "odd"], "'odd' is not a kind of scalars; choose one of uniform, bits"),
        (["--curve", "bn254", "--log2", "4", "--against", "arkworks"], "is not a peer"),
    ],
)
def test_refusals(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "msm", *arguments, *ONCE]) == 3
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.out == ""


@pytest.mark.thorough
def test_missing_arkworks_is_not_reported_as_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert entry.run(["bench", "msm", "--log2", "2", "--against", "arkworks", "-q"]) == 3
    assert "arkworks cannot be measured: py-arkworks-bls12381 is not" in capsys.readouterr().err
