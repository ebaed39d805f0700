"""quod serve --check with Filecoin's parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.errors import InputError
from quod.filecoin.parameters import ParameterSet, ProofKind
from quod.filecoin.sectors import sector_shape
from quod.service.errors import NotFoundError
from quod.service.server.config import Config
from quod.service.server.startup_check import check
from tests.filecoin.made_parameters import WINDOW, WINNING


def test_check(params: Path, tmp_path: Path) -> None:
    """Files of other circuits, and circuits that are not traced, are problems."""
    source = params / WINDOW.file_name("params")
    large = ParameterSet(ProofKind.POREP, sector_shape(32 << 30))
    for parameters in (WINDOW, WINNING, large):
        (tmp_path / parameters.file_name("params")).symlink_to(source)
    config = Config.model_validate({"data": tmp_path, "filecoin": {"params": tmp_path}})
    costs = {cost.key: cost for cost in check(config)}
    assert set(costs) == {"wpost-2k", "winning-2k", "porep-32g"}
    window = costs["wpost-2k"]
    assert (window.problem, window.load_seconds) == ("", None)
    assert window.read_bytes == window.host_bytes == source.stat().st_size
    assert "has 22 public inputs; winning-2KiB needs 132" in costs["winning-2k"].problem
    assert "of 32GiB need a CUDA device" in costs["porep-32g"].problem


def test_warm_circuits(tmp_path: Path) -> None:
    fields = {"data": tmp_path, "filecoin": {"params": tmp_path}}
    config = Config.model_validate(fields | {"workers": {"warm": ["wpost-2k"]}})
    [cost] = check(config)
    assert "lacks the parameters of window-2KiB" in cost.problem
    config = Config.model_validate(fields | {"workers": {"warm": ["membership"]}})
    with pytest.raises(NotFoundError, match="there is no circuit of this name"):
        list(check(config))


@pytest.mark.parametrize("name", ["", "none", "file"])
def test_a_folder_without_parameters(name: str, tmp_path: Path) -> None:
    """Nothing to check must not be reported as sound."""
    (tmp_path / "file").touch()
    fields = {"data": tmp_path, "filecoin": {"params": tmp_path / name}}
    with pytest.raises(InputError, match="has no parameters of Filecoin's circuits"):
        list(check(Config.model_validate(fields)))
