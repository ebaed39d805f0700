"""Use the Quod of this checkout rather than an installed one.

Another one may lack what is asked of it, and its figures would be recorded as this commit's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCES = str(Path(__file__).resolve().parent.parent / "src")

sys.path.insert(0, SOURCES)


def environment() -> dict[str, str]:
    """Return the environment of a process that must import the same Quod."""
    inherited_path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([SOURCES, inherited_path] if inherited_path else [SOURCES]),
    }
