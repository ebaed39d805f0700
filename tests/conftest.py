"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """The fixtures beside the checkout, which are no part of the repository."""
    folder = REPOSITORY.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    return folder
