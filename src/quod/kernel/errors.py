"""Errors of the kernel language; each names the user's file and line."""

from __future__ import annotations

import functools
import os
import sys

from quod.errors import KernelError
from quod.kernel.ir import Location

_PACKAGE = os.path.dirname(__file__) + os.sep
# Kernels that live in the package: their lines are a user's lines.
_EXAMPLES = _PACKAGE + "examples.py"


class TraceError(KernelError):
    """A kernel's Python source does something that the language does not allow."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        self.location = location or current_location()
        super().__init__(f"{self.location}: {message}")


class VerificationFailure(KernelError):
    """A traced kernel breaks a rule of the language."""

    def __init__(self, message: str, location: Location) -> None:
        self.location = location
        super().__init__(f"{location}: {message}")


class InterpreterError(KernelError):
    """A kernel did something undefined while it was interpreted, or was started wrongly."""

    def __init__(self, message: str, location: Location) -> None:
        self.location = location
        super().__init__(f"{location}: {message}")


def current_location() -> Location:
    """The innermost source line outside the kernel package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


@functools.cache
def _is_inside(file: str) -> bool:
    return file.startswith(_PACKAGE) and file != _EXAMPLES
