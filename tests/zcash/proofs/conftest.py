"""Parameters for tests of proofs: test keys made once, and the ceremony's where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.zcash.proofs.kinds import SAPLING_OUTPUT
from quod.zcash.proofs.parameters import make_test_parameters


@pytest.fixture(scope="session")
def output_test_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return INSECURE parameters of Sapling's Output."""
    path = tmp_path_factory.mktemp("parameters") / "output.params"
    make_test_parameters(SAPLING_OUTPUT, path, seed=1)
    return path
