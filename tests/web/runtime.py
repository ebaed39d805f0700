"""Paths and types of the tests of the runtime's JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"
RUNTIME = Path(__file__).resolve().parents[2] / "src" / "quod" / "web" / "runtime"

Node = Callable[..., Any]
