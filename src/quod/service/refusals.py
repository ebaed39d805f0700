"""The encoding of errors by a stable reason and a gRPC status, and their decoding.

A server encodes an error as a `Refusal` (`refusal_of`); a client raises an error of the same class
(`error_of`).
"""

from __future__ import annotations

from typing import Annotated, Final

from quod.errors import InputError, MismatchError, QuodError, ServiceError, TryAgainError
from quod.frozen import frozen
from quod.service import errors
from quod.service.encoding import Wire
from quod.witness.errors import CalculatorError, WitnessLimitError

DOMAIN: Final = "quod"
"""The domain of the reasons in `google.rpc.ErrorInfo`."""

_REASONS: Final[dict[type[QuodError], str]] = {
    MismatchError: "MISMATCH",
    InputError: "INVALID_ARGUMENT",
    errors.UnauthenticatedError: "UNAUTHENTICATED",
    errors.PermissionDeniedError: "PERMISSION_DENIED",
    errors.AlreadyExistsError: "ALREADY_EXISTS",
    errors.NotFoundError: "NOT_FOUND",
    errors.DeadlinePassedError: "DEADLINE_PASSED",
    errors.QueueFullError: "QUEUE_FULL",
    errors.StorageFullError: "STORAGE_FULL",
    errors.KeySuspendedError: "KEY_SUSPENDED",
    errors.LeaseLostError: "LEASE_LOST",
    errors.StoreInUseError: "STORE_IN_USE",
    errors.UnavailableError: "UNAVAILABLE",
    errors.KeyChangedError: "KEY_CHANGED",
    errors.ModelChangedError: "MODEL_CHANGED",
    errors.KeyTooLargeError: "KEY_TOO_LARGE",
    errors.KeyInUseError: "KEY_IN_USE",
    errors.KeysBusyError: "KEYS_BUSY",
    CalculatorError: "CALCULATOR",
    WitnessLimitError: "WITNESS_LIMIT",
    TryAgainError: "TRY_AGAIN",
    ServiceError: "REFUSED",
}
_CLASSES: Final = {reason: kind for kind, reason in _REASONS.items()}

INTERNAL: Final = "INTERNAL"

HTTP_STATUS: Final = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP status of each gRPC status, as google.rpc.Code documents them."""

# Of two gRPC statuses with one HTTP status, the first is decoded.
STATUS_OF_HTTP: Final = {code: name for name, code in reversed(HTTP_STATUS.items())}


@frozen
class Refusal:
    """The reason why a request failed.

    status: the name of a gRPC status code.
    reason: the stable name of the error class, such as ``QUEUE_FULL``.
    retry_seconds: the time after which to retry; None if a retry would not help.
    field: the invalid argument, or "" if unknown.
    """

    status: str
    reason: str
    message: str
    retry_seconds: Annotated[float | None, Wire(message="retry_after", optional=True)] = None
    field: Annotated[str, Wire(optional=True)] = ""


def refusal_of(error: BaseException) -> Refusal:
    """Encode an error for a client; an unexpected error is encoded without any detail."""
    for kind in type(error).__mro__:
        if kind in _REASONS:
            break
    else:
        return Refusal(INTERNAL, INTERNAL, "the server failed; its log gives the reason")
    status = error.status if isinstance(error, ServiceError) else "INVALID_ARGUMENT"
    retry = error.retry_seconds if isinstance(error, TryAgainError) else None
    section = error.section if isinstance(error, InputError) else None
    # The section of an InputError is a field of the request, and so named without that word.
    message = str(error).removeprefix("section ")
    return Refusal(status, _REASONS[kind], message, retry, section or "")


def error_of(refusal: Refusal) -> QuodError:
    """Decode a refusal to the error that the client raises."""
    kind = _CLASSES.get(refusal.reason)
    if kind is errors.KeyChangedError or kind is errors.KeyTooLargeError or kind is None:
        # The fields of these two errors are not transmitted, so a base class replaces them.
        kind = TryAgainError if refusal.retry_seconds is not None else ServiceError
    if issubclass(kind, TryAgainError):
        return kind(refusal.message, retry_seconds=refusal.retry_seconds or 1.0)
    return kind(refusal.message)
