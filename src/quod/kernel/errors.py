"""Errors of the kernel language; each names the user's file and line."""

from __future__ import annotations

import functools
import os
import re
import sys

from quod.errors import KernelError
from quod.frozen import frozen

OWN_FILES = os.path.dirname(os.path.dirname(__file__)) + os.sep
"""The path prefix of Quod's own source files."""
_PACKAGE = os.path.dirname(__file__) + os.sep
# Kernels in this package whose lines count as user code.
_EXAMPLES = _PACKAGE + "examples.py"
_DEFINITION = _PACKAGE + "definition.py"
# Libraries that kernels call: an error raised in one is reported at the line that calls it.
_LIBRARIES = tuple(
    OWN_FILES + name for name in ("field" + os.sep, "curve" + os.sep, "validation.py")
)


# Vowels, and letters whose names begin with one: an f32, an i32; but a u32.
_AFTER_AN = r"[aeio]|[f]\d|un(?!i)"


def an(noun: object) -> str:
    """Prefix a noun with its indefinite article, for messages: ``an i32``, ``a u32``."""
    return f"{'an' if re.match(_AFTER_AN, str(noun), re.IGNORECASE) else 'a'} {noun}"


@frozen
class Location:
    """The Python source line that recorded an op."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_LONGEST_MESSAGE = 1000


def shortened(message: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Truncate a message to at most `longest` characters, ending in ``...``."""
    return message if len(message) <= longest else f"{message[: longest - 3]}..."


class TraceError(KernelError):
    """A kernel's Python source does something that the language does not allow."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        self.location = location or user_location()
        super().__init__(shortened(f"{self.location}: {message}"))


class VerificationFailure(KernelError):
    """A traced kernel breaks a rule of the language."""

    def __init__(self, message: str, location: Location) -> None:
        self.location = location
        super().__init__(shortened(f"{location}: {message}"))


class InterpreterError(KernelError):
    """An interpreted kernel had undefined behaviour, or its launch was invalid."""

    def __init__(self, message: str, location: Location) -> None:
        self.location = location
        super().__init__(shortened(f"{location}: {message}"))


class AssertionFailure(InterpreterError):
    """The condition of a `k.assert_` is false in some instance."""


def current_location() -> Location:
    """Return the innermost source line outside the kernel package.

    Only functions of the kernel package call this function.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and _inside[frame.f_code.co_filename]:
        frame = frame.f_back
    return _line_of(frame.f_code.co_filename, frame.f_lineno)


def user_location() -> Location:
    """Return the innermost source line outside the library, which `is_library` defines.

    For a kernel defined in the library, this is a line of the kernel's body.
    """
    frame = user_frame = sys._getframe(1)
    while frame.f_back is not None:
        code = frame.f_code
        if not _inside[code.co_filename]:
            user_frame = frame
            if not is_library(code.co_filename):
                break
        elif code.co_filename == _DEFINITION and code.co_name == "_record":
            break
        frame = frame.f_back
    return Location(user_frame.f_code.co_filename, user_frame.f_lineno)


def is_library(file: str) -> bool:
    """Return whether a file belongs to the kernel, field or curve packages, not to user code."""
    return _inside[file] or file.startswith(_LIBRARIES)


class _InsidePackage(dict[str, bool]):
    """Per file, whether it belongs to the kernel package; each op asks for several files."""

    def __missing__(self, file: str) -> bool:
        inside = self[file] = file.startswith(_PACKAGE) and file != _EXAMPLES
        return inside


_inside = _InsidePackage()

# Shared, as most lines record many ops.
_line_of = functools.cache(Location)
