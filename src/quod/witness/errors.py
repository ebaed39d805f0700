"""Errors of witness generation, besides malformed inputs (`InputError`).

Exit codes, and the service's gRPC codes, are those of `ServiceError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError, ServiceError


class CircuitError(InputError):
    """The circuit rejects the inputs.

    code: circom's error number.
    lines: pairs of a template's name and a line number, innermost first.
    path: the name of the inputs in the message.
    """

    def __init__(self, message: str, *, code: int, lines: Sequence[tuple[str, int]], path: str):
        self.code = code
        self.lines = tuple(lines)
        super().__init__(message, path=path)


class CalculatorError(ServiceError):
    """A module is not a circom calculator, is too old, or does not behave like a calculator."""

    status = "FAILED_PRECONDITION"


class WitnessLimitError(ServiceError):
    """A witness, or the compilation of a calculator, exceeds its time or memory limit."""

    status = "FAILED_PRECONDITION"
