"""quod bench ntt measures transforms and refuses curves and fields that it does not know."""

from __future__ import annotations

import json

import pytest

from quod.cli import entry

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]


@pytest.mark.thorough
def test_measures_each_size_of_the_curve(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        entry.run(["bench", "ntt", "--curve", "bls12_381", "--log2", "3", "--log2", "7", *ONCE])
        == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert {row["parameters"]["log2"] for row in rows} == {3, 7}
    assert {row["parameters"]["curve"] for row in rows} == {"bls12_381"}
    assert {row["parameters"]["what"] for row in rows} == {
        "forward NN",
        "inverse NR, forward RN on a coset",
    }
    for row in rows:
        assert (row["subject"], row["unit"]) == ("ntt", "ms")
        # Nothing this small takes ten seconds, and nothing takes less than a call.
        assert 1e-4 < row["median"] < 10_000


def test_another_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "ntt", "--field", "baby_bear", "--log2", "5", *ONCE]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["parameters"]["field"] for row in rows} == {"baby_bear"}
    assert all("curve" not in row["parameters"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--field", "babybear"], 3, "'babybear' is not a field; choose one of bn254.fq"),
        (["--field", "m31", "--log2", "4"], 3, "transforms over m31 have 2^0 to 2^1 points"),
        (["--curve", "bn128"], 3, "'bn128' is not a curve; choose one of bn254, bls12_381"),
        (["--log2", "29"], 2, "29 is not in the range"),
        (["--device", "gpu:9"], 7, "gpu:9"),
    ],
)
def test_refusals(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", "ntt", *arguments]) == code
    assert text in capsys.readouterr().err
