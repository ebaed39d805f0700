"""The open provers of a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.filecoin.parameters import ParameterSet, ProofKind
from quod.filecoin.sectors import sector_shape
from quod.service.errors import UnavailableError
from quod.service.filecoin.provers import Provers


def test_closed_provers_open_no_parameters(params: Path) -> None:
    """A call of PreloadSRS may wait for the lock while its worker closes the device."""
    provers = Provers("cpu", params, allow_insecure=True)
    provers.close()
    with pytest.raises(UnavailableError, match="was closed; ask again"):
        provers.open(ParameterSet(ProofKind.WINDOW, sector_shape(2048)))
    assert provers.status(ready=False)[0].keys == ()
