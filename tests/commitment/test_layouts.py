"""Sizes for GPUs that are not there: what Ligero launches is bound as they would, and not run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from quod.commitment import Ligero
from quod.errors import DeviceError
from quod.field import EXTENSIONS
from quod.transcript import ProofWriter
from tests.commitment.tables import begun, zero_claim
from tests.device.layouts import PORTABLE, PROFILES, LayoutDevice, Profile


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("name", ["m31.4", "goldilocks.2"])
def test_every_size_is_laid_out(profile: Profile, name: str) -> None:
    field = EXTENSIONS[name]
    for variables in (0, 1, 3, 8, 13, 18, 22):
        device = LayoutDevice(profile)
        table = device.allocate(field.modulus.bytes << variables)
        committer = Ligero().committer(cast(Any, device), field, variables)
        writer = ProofWriter(begun())
        committer.commit(table, writer)
        committer.open([zero_claim(field, variables)] * 2, writer)
        assert device.launches > 5


def test_tables_that_a_device_does_not_reach() -> None:
    """Refused before anything is computed."""
    with pytest.raises(DeviceError, match=r"reaches 128\.0 MiB"):
        Ligero().committer(cast(Any, LayoutDevice(PORTABLE)), EXTENSIONS["m31.4"], 24)
    small = Profile("small", 1 << 20, 1 << 10, 1, "sm_90")
    with pytest.raises(DeviceError, match="the budget is"):
        Ligero().committer(cast(Any, LayoutDevice(small)), EXTENSIONS["m31.4"], 17)
