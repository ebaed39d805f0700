"""The limb study: its cases, checks and output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.bench.arithmetic.field_study import StudyRow, choices, expected, study, study_chain
from quod.bench.arithmetic.field_study_report import draw, measurements, show
from quod.cli import entry
from quod.errors import InputError, QuodError
from quod.field.array import random_elements, words_to_integers
from quod.field.moduli import BN254_FR
from quod.kernel import Machine
from quod.kernel.interpreter.interpreter import interpret

ROWS = [
    StudyRow("bn254.fr", "product", "13", "rolled", 2.5, 0.25, 14_000),
    StudyRow("bn254.fr", "square", "16", "rows", 0.5, 1.5, 80_000),
    StudyRow("bn254.fr", "product", "15", "rows", 0.0, 0.0, 0, "the driver refused it"),
]


@pytest.mark.parametrize("what", ["product", "square", "two products", "conversion"])
@pytest.mark.parametrize("limbs", ["13:rolled", "16:rows", "30/64"])
def test_product_chains_match_integers(what: str, limbs: str) -> None:
    machine = Machine("wgsl", 4, frozenset({"u64", "low_products"}), limbs=limbs)
    stored = random_elements(BN254_FR, 8, seed=1)
    wanted = words_to_integers(BN254_FR, stored)
    traced = study_chain.trace(machine, modulus=BN254_FR, what=what)
    words = stored.view("<u8").reshape(-1).copy()
    interpret(traced, 1, [words, 2])
    for at in range(1, len(wanted), 2):
        for _ in range(2):
            wanted[at] = expected(what, BN254_FR, wanted[at - 1], wanted[at])  # type: ignore[arg-type]
    assert words_to_integers(BN254_FR, words.view("<u4").reshape(stored.shape)) == wanted


def test_choices() -> None:
    every = choices(u64=True, software=False)
    assert {"12:karatsuba", "13:columns", "14:rows", "16:rolled", "30/64:columns"} <= set(every)
    assert not {"14:karatsuba", "16:karatsuba"} & set(every)
    assert not any("/64" in name for name in choices(u64=False, software=False))
    assert all(name.endswith(":rolled") for name in choices(u64=True, software=True))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(InputError, match="does not run WGSL"):
        next(study("cpu", [], print))
    with pytest.raises(InputError, match="'bn254' is not a field"):
        next(study("cpu", ["bn254"], print))
    assert entry.run(["bench", "field", "--device", "webgpu", "--stages"]) == 2


def test_results_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, as_json=False)
    table = capsys.readouterr().out
    assert all(text in table for text in ("2.50", "0.4000", "14.0 kB", "the driver refused it"))
    show(ROWS, as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["rate"] for row in rows] == [2.5, 0.5, 0.0]
    assert rows[1]["nanoseconds"] == 2.0


def test_results_are_recorded() -> None:
    kept = measurements(ROWS, "webgpu")
    assert len(kept) == 6
    assert {row.unit for row in kept} == {"G/s", "s", "bytes"}


@pytest.mark.thorough
def test_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "study.png"
    draw(ROWS, path, "a study")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(QuodError, match="nothing was measured"):
        draw(ROWS[2:], path, "a study")
