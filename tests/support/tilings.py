"""Devices for tests of tiles: those of the fixture `tiling`, and one that runs texts."""

from __future__ import annotations

import pytest

from tests.support.devices import present

IN_TEXTS_TOO = pytest.mark.parametrize(
    "tiling", present("emulated", "emulated:ptx", "cuda"), indirect=True, scope="module"
)
"""For tests without clusters, which the interpreter of texts does not know."""
