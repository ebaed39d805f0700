"""The kernels of first proofs, as collected by recordings on devices without memory."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from quod.device.cuda.planning import MODELS, GpuModel
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.groth16.gpu import first_proofs
from quod.groth16.gpu.first_proofs import first_proof_kernels
from quod.groth16.gpu.key import GpuKey
from quod.msm.gpu.run import base_multiples
from quod.msm.gpu.run.resident import ResidentMsm
from tests.support.thorough import one_and_others

H100 = next(model for model in MODELS if model.name == "H100")


def recorded(shape: first_proofs._Shape, *, infinite: bool) -> set[Any]:
    """The identities of the kernels of a proof."""
    device = first_proofs._ProofDevice(H100, infinite=infinite)
    return set(
        map(first_proofs._identity, first_proofs._recorded(first_proofs._key(shape), device))
    )


def test_every_default_architecture_has_a_model() -> None:
    assert [*dict.fromkeys(model.arch for model in MODELS)] == [
        "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a",
    ]  # fmt: skip


@pytest.mark.thorough
def test_equal_kernels_in_each_run() -> None:
    """Bases are computed while a proof is recorded, and either may come first."""
    collected = [first_proof_kernels([H100], ["bn254"], range(9, 10))["sm_90a"] for _ in range(2)]
    assert collected[0] == collected[1]
    assert len({kernel.definition.name for kernel in collected[0]}) >= 20
    sorts = {
        (shape.masked, shape.indexed)
        for kernel in collected[0]
        if (shape := kernel.static.get("shape")) and kernel.definition.name == "count_bins"
    }
    assert len(sorts) == 4


@pytest.mark.parametrize("infinite", one_and_others([False, True]))
def test_bases_before_and_after_the_recording(
    infinite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the two threads does not matter."""
    shape = first_proofs._Shape("bn254", 9, 510, sparse=True)
    collected = set(
        map(first_proofs._identity, first_proof_kernels([H100], ["bn254"], [9])["sm_90a"])
    )
    load = ResidentMsm.load
    calls: list[ResidentMsm] = []

    def at_once(self: ResidentMsm) -> bool:
        calls.append(self)
        return load(self)

    monkeypatch.setattr(ResidentMsm, "load", at_once)
    monkeypatch.setattr(base_multiples, "compile_for", lambda device, plan: None)
    monkeypatch.setattr(Background, "begin", lambda self, task: Outcome.of(task()))
    device = first_proofs._ProofDevice(H100, infinite=infinite)
    kernels = set(
        map(first_proofs._identity, first_proofs._recorded(first_proofs._key(shape), device))
    )
    assert len(calls) == 5
    assert kernels <= collected


def test_no_further_bases_are_computed_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread ends with the bases that it computes while the recording fails."""
    loading, dropped = threading.Event(), threading.Event()
    calls: list[ResidentMsm] = []

    def load(self: ResidentMsm) -> bool:
        calls.append(self)
        loading.set()
        assert dropped.wait(60)
        return False

    def drop(self: Background, **options: Any) -> None:
        drop_tasks(self, **options)
        dropped.set()

    def interrupted(*_: Any) -> Any:
        assert loading.wait(60)
        raise KeyboardInterrupt

    drop_tasks = Background._drop
    monkeypatch.setattr(ResidentMsm, "load", load)
    monkeypatch.setattr(Background, "_drop", drop)
    monkeypatch.setattr(GpuKey, "_recorded_slots", interrupted)
    zkey = first_proofs._key(first_proofs._Shape("bn254", 8, 254, sparse=False))
    with pytest.raises(KeyboardInterrupt):
        first_proofs._recorded(zkey, first_proofs._ProofDevice(H100, infinite=False))
    assert len(calls) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("curve", ["bn254", "bls12_381"])
def test_sizes_in_between_need_no_other_kernels(curve: str) -> None:
    rng = random.Random(curve)
    collected = first_proof_kernels([H100], [curve], range(9, 12))["sm_90a"]
    identities = set(map(first_proofs._identity, collected))
    for _ in range(3):
        log2_domain = rng.randint(10, 11)
        variables = int(rng.uniform(0.6, 1.0) * (1 << log2_domain)) - 2
        shape = first_proofs._Shape(curve, log2_domain, variables, rng.random() < 0.5)
        kernels = first_proofs._recorded(
            first_proofs._key(shape), first_proofs._ProofDevice(H100, infinite=True)
        )
        assert set(map(first_proofs._identity, kernels)) <= identities, shape


@pytest.mark.thorough
def test_each_architecture_has_its_own_kernels() -> None:
    small = GpuModel("small", "sm_89", 1 << 30, 4 * 1536, 4)
    collected = first_proof_kernels([H100, small], ["bn254"], range(8, 9))
    assert set(collected) == {"sm_90a", "sm_89"}
    assert collected["sm_90a"]
    assert collected["sm_89"]
