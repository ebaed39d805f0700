"""The kernels of first proofs, as collected by recordings on devices without memory."""

from __future__ import annotations

import random

import pytest

from quod.device.cuda.planning import MODELS, GpuModel, PlanningDevice
from quod.groth16.gpu import first_proofs
from quod.groth16.gpu.first_proofs import first_proof_kernels

H100 = next(model for model in MODELS if model.name == "H100")


def test_every_default_architecture_has_a_model() -> None:
    assert [*dict.fromkeys(model.arch for model in MODELS)] == [
        "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a",
    ]  # fmt: skip


def test_equal_kernels_in_each_run() -> None:
    """Bases are computed while a proof is recorded, and either may come first."""
    collected = [first_proof_kernels([H100], ["bn254"], range(9, 10))["sm_90a"] for _ in range(2)]
    assert collected[0] == collected[1]
    assert len({kernel.definition.name for kernel in collected[0]}) >= 20


@pytest.mark.parametrize("curve", ["bn254", "bls12_381"])
def test_sizes_in_between_need_no_other_kernels(curve: str) -> None:
    rng = random.Random(curve)
    collected = first_proof_kernels([H100], [curve], range(9, 12))["sm_90a"]
    identities = set(map(first_proofs._identity, collected))
    for _ in range(3):
        log2_domain = rng.randint(10, 11)
        variables = int(rng.uniform(0.6, 1.0) * (1 << log2_domain)) - 2
        shape = first_proofs._Shape(curve, log2_domain, variables, rng.random() < 0.5)
        kernels = first_proofs._recorded(first_proofs._key(shape), PlanningDevice(H100))
        assert set(map(first_proofs._identity, kernels)) <= identities, shape


def test_each_architecture_has_its_own_kernels() -> None:
    small = GpuModel("small", "sm_89", 1 << 30, 4 * 1536, 4)
    collected = first_proof_kernels([H100, small], ["bn254"], range(8, 9))
    assert set(collected) == {"sm_90a", "sm_89"}
    assert collected["sm_90a"]
    assert collected["sm_89"]
