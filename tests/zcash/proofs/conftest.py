"""Parameters for tests of proofs: test keys made once, and the ceremony's where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quod.zcash.proofs.kinds import SAPLING_OUTPUT, SAPLING_SPEND
from quod.zcash.proofs.parameters import make_test_parameters

PARAMETERS_VARIABLE = "QUOD_TEST_ZCASH_PARAMS"


@pytest.fixture(scope="session")
def output_test_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return INSECURE parameters of Sapling's Output."""
    path = tmp_path_factory.mktemp("parameters") / "output.params"
    make_test_parameters(SAPLING_OUTPUT, path, seed=1)
    return path


@pytest.fixture(scope="session")
def spend_parameters() -> Path:
    """Return the ceremony's sapling-spend.params, which is too large for the fixtures."""
    folder = os.environ.get(PARAMETERS_VARIABLE) or Path.home() / ".zcash-params"
    path = Path(folder) / SAPLING_SPEND.file_name
    if not path.is_file():
        pytest.skip(f"needs {SAPLING_SPEND.file_name} in ~/.zcash-params or {PARAMETERS_VARIABLE}")
    return path
