"""Asserts the exact message of a kernel that is refused, and the line that it names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from quod.errors import KernelError
from quod.kernel import KernelDefinition, Machine, kernel
from tests.kernel.machines import EIGHT


def line_of(body: KernelDefinition | Callable[..., Any], text: str) -> int:
    """The one line of a kernel's or function's source that has the text in it."""
    if isinstance(body, KernelDefinition):
        body = body.function
    lines, start = inspect.getsourcelines(body)
    (offset,) = [number for number, line in enumerate(lines) if text in line]
    return start + offset


def refuses(
    body: Callable[..., Any],
    error: type[KernelError],
    message: str,
    *,
    line: str = "# here",
    machine: Machine = EIGHT,
    **static: Any,
) -> None:
    """Tracing the kernel fails with this message, at the line of its source that is marked."""
    definition = body if isinstance(body, KernelDefinition) else kernel(body)
    with pytest.raises(error) as caught:
        definition.trace(machine, **static)
    file = definition.function.__code__.co_filename
    place = f"{file}:{line_of(definition, line)}"
    assert str(caught.value) == f"{place}: {message}"
