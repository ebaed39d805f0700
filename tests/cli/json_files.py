"""JSON files in the working directory, for tests of commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(name: str, document: object) -> str:
    Path(name).write_text(json.dumps(document))
    return name


def read(name: str) -> Any:
    return json.loads(Path(name).read_text())
