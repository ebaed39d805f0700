"""Layouts for absent GPUs: launches of provers are bound as on the device, but not run."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from quod.commitment import HyperKzg, Hyrax, Ligero, ReferenceString
from quod.device.cuda.planning import GpuModel
from quod.errors import DeviceError
from quod.field import EXTENSIONS, NAMED
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.transcript import ProofWriter
from tests.commitment.tables import begun, zero_claim
from tests.device.layouts import PORTABLE, PROFILES, LayoutDevice


@pytest.mark.parametrize(
    ("name", "profile"),
    [*(("m31.4", profile) for profile in PROFILES), ("goldilocks.2", PORTABLE)],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_every_size_is_laid_out(name: str, profile: GpuModel) -> None:
    field = EXTENSIONS[name]
    for variables in (0, 1, 3, 8, 13, 18, 22):
        device = LayoutDevice(profile)
        table = device.allocate(field.modulus.bytes << variables)
        committer = Ligero().committer(cast(Any, device), field, variables)
        writer = ProofWriter(begun())
        committer.commit(table, writer)
        committer.open([zero_claim(field, variables)] * 2, writer)
        assert device.launches > 5


def test_tables_beyond_device_addressing() -> None:
    """Refused before anything is computed."""
    with pytest.raises(DeviceError, match=r"allows 128\.0 MiB a buffer"):
        Ligero().committer(cast(Any, LayoutDevice(PORTABLE)), EXTENSIONS["m31.4"], 24)
    small = GpuModel("small", "sm_90", 1 << 20, 1 << 10, 1)
    with pytest.raises(DeviceError, match="the budget is"):
        Ligero().committer(cast(Any, LayoutDevice(small)), EXTENSIONS["m31.4"], 17)


STRING = ReferenceString.of_tau(7, 12, insecure=True)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("scheme", [Hyrax(), HyperKzg(STRING)], ids=["hyrax", "hyperkzg"])
def test_every_size_in_bn254_is_laid_out(
    profile: GpuModel, scheme: Hyrax | HyperKzg, monkeypatch: pytest.MonkeyPatch
) -> None:
    def infinity(msm: RecordedMsm) -> Any:
        return np.zeros((msm.plan.batch, msm.plan.group.point_words), np.uint64)

    monkeypatch.setattr(RecordedMsm, "finish", infinity)
    field = NAMED["bn254.fr"]
    for variables in (1, 3, 9, 12):
        device = LayoutDevice(profile)
        table = device.allocate(field.bytes << variables)
        committer = scheme.committer(cast(Any, device), field, variables)
        writer = ProofWriter(begun())
        committer.commit(table, writer)
        committer.open([zero_claim(field, variables)] * 2, writer)
        assert device.launches > 50


def test_bn254_tables_beyond_device_addressing() -> None:
    with pytest.raises(DeviceError, match=r"more than a buffer of .* has \(128\.0 MiB\)"):
        Hyrax().committer(cast(Any, LayoutDevice(PORTABLE)), NAMED["bn254.fr"], 23)
    small = GpuModel("small", "sm_90", 1 << 20, 1 << 10, 1)
    with pytest.raises(DeviceError, match="the budget is"):
        Hyrax().committer(cast(Any, LayoutDevice(small)), NAMED["bn254.fr"], 14)
