"""Host work for proofs while the key of a GPU is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.groth16 import ProvingKey
from quod.groth16.gpu import warm_up
from quod.groth16.gpu.warm_up import prepare_host
from quod.groth16.points import multiples
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce import finish
from tests.groth16.conftest import Made

Make = Callable[[str], Made]


def test_warm_up_compiles_host_kernels(
    circuit_files: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = circuit_files("bn254")
    proof, public = ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=1)
    # A device on which nothing is compiled yet, with code that the cache has.
    key = ProvingKey.from_zkey(files.zkey, device=CpuDevice())
    host = CpuDevice(threads=1)
    monkeypatch.setattr(finish, "_host", lambda: host)
    monkeypatch.setattr(warm_up, "_THREADS", 1)
    prepared = prepare_host(key)
    prepared.begin(lambda: None).result()

    def never(*arguments: Any) -> Any:
        raise AssertionError(f"{arguments[0].name} is compiled when it is needed")

    monkeypatch.setattr(cpu_compiler, "build", never)
    g1, g2 = key.groups
    assert len(multiples(key.host, g1, [key.delta_g1, key.alpha_g1], [3, 5])) == 2
    assert len(multiples(key.host, g2, [key.delta_g2], [3])) == 1
    for group in (g1, g2):
        maximum = group.scalars.value - 1
        finish.Finisher([GpuMsmPlan(group, 1, 4, 1, 64, maximum, 1, 1, "weierstrass")])
    assert key.self_check_key.verify(public, proof)
    prepared.close()
    key.close()


def test_warm_up_errors_are_raised_by_the_proof(
    circuit_files: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ProvingKey.from_zkey(circuit_files("bn254").zkey)
    asked = []

    def damaged(key: ProvingKey) -> Any:
        asked.append(key)
        raise InputError("IC[0] is not on the curve")

    monkeypatch.setattr(ProvingKey, "self_check_key", property(damaged))
    prepared = prepare_host(key)
    assert prepared.begin(lambda: "still at work").result() == "still at work"
    assert asked == [key]
    prepared.close()
    key.close()
