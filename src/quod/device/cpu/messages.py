"""Messages between a process and the helpers that compile kernels for it, over pipes."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

from quod.kernel.machine import Machine

_LENGTH = struct.Struct("<Q")
_MAX_BYTES = 1 << 30

Request = tuple[str, str, str, str, Machine, dict[str, Any]]
"""The digest of the sources, the result asked for, and a kernel's module, name, machine and static
arguments. The result is `CODE` or `QUICK_CODE`, or named by the module of a function `packed_text`,
which returns it."""

CODE, QUICK_CODE = "code", "quick code"
"""Code with optimisations, or without."""


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message for `receive`."""
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next message. Unpickles, so only for own processes.

    Raises EOFError at the end, and pickle.UnpicklingError for anything but a message.
    """
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(header)
    if length > _MAX_BYTES:
        raise pickle.UnpicklingError(f"a message of {length} bytes")
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    try:
        return pickle.loads(data)
    except (AttributeError, ImportError, LookupError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(str(error)) from error
