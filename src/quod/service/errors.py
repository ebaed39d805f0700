"""What the service refuses, by the code of gRPC that its clients see (`status`).

Wrong arguments are `InputError` as everywhere (INVALID_ARGUMENT). No message holds a witness, or
the name of the file that has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from quod.errors import ServiceError, TryAgainError


class AlreadyExistsError(ServiceError):
    """The client has a job of this idempotency key for another request."""

    status = "ALREADY_EXISTS"


class NotFoundError(ServiceError):
    """There is no such job, or it has been collected, or it is another client's."""

    status = "NOT_FOUND"


class DeadlinePassedError(ServiceError):
    """The deadline of a job is in the past."""

    status = "DEADLINE_EXCEEDED"


class QueueFullError(TryAgainError):
    """A quota of the client, or a limit of the queue, leaves no place for the job."""

    status = "RESOURCE_EXHAUSTED"


class StorageFullError(TryAgainError):
    """The disk is nearly full: no new jobs are taken, and those that were are finished."""

    status = "RESOURCE_EXHAUSTED"


class KeySuspendedError(ServiceError):
    """Proofs with this key have ended workers, so that it takes no jobs until it is resumed."""

    status = "FAILED_PRECONDITION"


class LeaseLostError(ServiceError):
    """The part is no longer this worker's; what it has computed must be thrown away."""

    status = "ABORTED"


class StoreInUseError(ServiceError):
    """Another process has this queue open."""

    status = "FAILED_PRECONDITION"


class UnavailableError(TryAgainError):
    """The queue is closed, or its database cannot be reached.

    What was asked for may have been done: a submission is repeated with its idempotency key.
    """

    status = "UNAVAILABLE"


class KeyChangedError(ServiceError):
    """A file of a key is not what was registered: another, written to, or gone; `path` names it."""

    status = "FAILED_PRECONDITION"

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class KeyTooLargeError(ServiceError):
    """A key does not fit a budget if it is alone: `parts` has the bytes of each, `budget` its."""

    status = "FAILED_PRECONDITION"

    def __init__(self, message: str, *, parts: Mapping[str, int], budget: int) -> None:
        self.parts = dict(parts)
        self.budget = budget
        super().__init__(message)


class KeyInUseError(ServiceError):
    """A key that is leased or being loaded cannot be given up now."""

    status = "FAILED_PRECONDITION"


class KeysBusyError(TryAgainError):
    """There was no room for a key in time, as others are in use."""

    status = "RESOURCE_EXHAUSTED"


class UnauthenticatedError(ServiceError):
    """The request has no token, or one that is nobody's."""

    status = "UNAUTHENTICATED"


class PermissionDeniedError(ServiceError):
    """The client is known and may not do this: its role, its keys, its priority, its root."""

    status = "PERMISSION_DENIED"
