"""Keys that several modules of these tests use, made once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.groth16 import generate_key
from tests.groth16.circuits import Circuit, recurrence


@dataclass(frozen=True)
class Made:
    """A circuit of ours with its files and a key of our own set-up."""

    circuit: Circuit
    r1cs: Path
    wtns: Path
    zkey: Path


@pytest.fixture
def pairing_device(device: AnyDevice) -> AnyDevice:
    """Every device that computes pairings; the processor for those of WebGPU, which refuse them."""
    return open_device("cpu") if device.kind == "webgpu" else device


@pytest.fixture(scope="session")
def circuit_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """The recurrence of 20 steps, or other, over a curve, with a key made from seed 1."""

    @functools.cache
    def make(curve: str, steps: int = 20) -> Made:
        folder = tmp_path_factory.mktemp(curve)
        circuit = recurrence(curve, steps)
        r1cs = circuit.write_r1cs(folder / "circuit.r1cs")
        wtns = circuit.write_wtns(folder / "witness.wtns")
        zkey = folder / "circuit.zkey"
        generate_key(r1cs, zkey, 1)
        return Made(circuit, r1cs, wtns, zkey)

    return make
