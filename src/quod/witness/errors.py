"""Why there is no witness, beside inputs that are malformed (`InputError`).

Exit codes and, where the service refuses with them, codes of gRPC are those of `ServiceError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError, ServiceError


class CircuitError(InputError):
    """Inputs that the circuit refuses: `code` is the number that circom has for why, `lines` are
    templates with the line of each, innermost first."""

    def __init__(self, message: str, *, code: int, lines: Sequence[tuple[str, int]], path: str):
        self.code = code
        self.lines = tuple(lines)
        super().__init__(message, path=path)


class CalculatorError(ServiceError):
    """A witness calculator is none of circom's, an old one, or does what none of those does."""

    status = "FAILED_PRECONDITION"


class WitnessLimitError(ServiceError):
    """A witness, or a calculator that is compiled, takes more time or memory than it may."""

    status = "FAILED_PRECONDITION"
