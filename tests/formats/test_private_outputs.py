"""Files with secrets are private to their owner, whatever the umask and the previous file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod import r1cs
from quod.cli import entry
from quod.field.moduli import NAMED
from quod.formats import write_circuit6_witness, write_wtns
from quod.gkr import write_inputs
from quod.layered import CircuitBuilder

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
WITNESS = EXAMPLE / "witness.wtns"


def _wtns(path: Path) -> None:
    write_wtns(path, "bn254", np.eye(1, 8, dtype=np.uint32))


def _circuit6(path: Path) -> None:
    words = np.ones((1, 1, 1), np.uint32)
    write_circuit6_witness(path, NAMED["m31"], words, words)


def _gkr_inputs(path: Path) -> None:
    builder = CircuitBuilder(NAMED["m31"], 1)
    builder.layer(1).add(0, 0)
    write_inputs(path, builder.finished(), [[1, 2]])


def _r1cs_witness(path: Path) -> None:
    def circuit(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        system.output("y", x * x)

    r1cs.trace(circuit, "bn254").write_wtns(path, {"x": 3})


def _calculated(path: Path) -> None:
    words = [str(EXAMPLE / "circuit.wasm"), str(EXAMPLE / "input.json"), str(path)]
    assert entry.run(["wtns", "calculate", *words]) == 0


def _exported(path: Path) -> None:
    assert entry.run(["wtns", "export", "json", str(WITNESS), str(path)]) == 0


@pytest.mark.parametrize(
    "write", [_wtns, _circuit6, _gkr_inputs, _r1cs_witness, _calculated, _exported]
)
@pytest.mark.parametrize("exists", [False, True])
def test_secret_outputs_are_private(
    write: Callable[[Path], None], exists: bool, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    if exists:
        path.write_bytes(b"old")
        path.chmod(0o644)
    before = os.umask(0)
    try:
        write(path)
    finally:
        os.umask(before)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
