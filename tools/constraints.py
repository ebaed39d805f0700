"""Write constraints.txt: the exact versions of all packages in this environment except Quod.

    python tools/constraints.py

Run in an environment of `make test` whose tests pass; `tools/setup.sh` installs what it lists.
"""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "constraints.txt"

# Quod, and the packages of the virtual environment itself.
_LEFT_OUT = {"quod", "pip", "setuptools", "wheel"}

_HEADER = """\
# Written by tools/constraints.py: the versions that Quod was last tested with.
# pip install --constraint constraints.txt .
"""


def constraints() -> str:
    """Return the text of the file."""
    versions = {
        re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower(): package.version
        for package in distributions()
    }
    lines = [f"{name}=={versions[name]}\n" for name in sorted(versions) if name not in _LEFT_OUT]
    return _HEADER + "".join(lines)


if __name__ == "__main__":
    FILE.write_text(constraints())
