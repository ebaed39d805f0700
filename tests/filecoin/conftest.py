"""Fixtures of Filecoin's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.filecoin.made_parameters import WINDOW, write_parameters


@pytest.fixture(scope="session")
def window_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with test parameters of WindowPoSt of 2 KiB."""
    folder = tmp_path_factory.mktemp("parameters")
    write_parameters(WINDOW, folder)
    return folder
