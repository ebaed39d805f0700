"""Errors of witness generation, besides malformed inputs (`InputError`).

Exit codes, and the service's gRPC codes, are those of `ServiceError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError, ServiceError


class CircuitError(InputError):
    """The circuit rejects the inputs.

    `code` is circom's error number; `lines` are templates with their line numbers, innermost first.
    """

    def __init__(self, message: str, *, code: int, lines: Sequence[tuple[str, int]], path: str):
        self.code = code
        self.lines = tuple(lines)
        super().__init__(message, path=path)


class CalculatorError(ServiceError):
    """A module is not a calculator of circom, is too old, or behaves as no such calculator does."""

    status = "FAILED_PRECONDITION"


class WitnessLimitError(ServiceError):
    """A witness, or the compilation of a calculator, exceeds its limit of time or memory."""

    status = "FAILED_PRECONDITION"
