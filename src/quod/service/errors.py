"""Errors of the service; `status` is the gRPC status code that clients see.

Invalid arguments raise `InputError`, as elsewhere in Quod (INVALID_ARGUMENT). No message contains a
witness or the name of its file.
"""

from __future__ import annotations

from collections.abc import Mapping

from quod.errors import ServiceError, TryAgainError


class AlreadyExistsError(ServiceError):
    """The client has already used the idempotency key for another request."""

    status = "ALREADY_EXISTS"


class NotFoundError(ServiceError):
    """The job does not exist, was deleted after its retention time, or is another client's."""

    status = "NOT_FOUND"


class DeadlinePassedError(ServiceError):
    """The deadline of a job is in the past."""

    status = "DEADLINE_EXCEEDED"


class QueueFullError(TryAgainError):
    """A quota of the client or a limit of the queue has no room for the job."""

    status = "RESOURCE_EXHAUSTED"


class StorageFullError(TryAgainError):
    """The disk is nearly full: the queue refuses new jobs and finishes accepted jobs."""

    status = "RESOURCE_EXHAUSTED"


class KeySuspendedError(ServiceError):
    """Workers died while proving with the key; jobs are refused until an operator resumes it."""

    status = "FAILED_PRECONDITION"


class LeaseLostError(ServiceError):
    """The worker no longer holds the partition and must discard its result."""

    status = "ABORTED"


class StoreInUseError(ServiceError):
    """Another process has this queue open."""

    status = "FAILED_PRECONDITION"


class UnavailableError(TryAgainError):
    """The queue is closed, or its database cannot be reached.

    The operation may have been committed, so repeat a submission with the same idempotency key.
    """

    status = "UNAVAILABLE"


class KeyChangedError(ServiceError):
    """A file of a key was replaced, changed or deleted since its registration.

    path: the file.
    """

    status = "FAILED_PRECONDITION"

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class ModelChangedError(ServiceError):
    """A language model or its plan was replaced after a job for it was submitted."""

    status = "FAILED_PRECONDITION"


class KeyTooLargeError(ServiceError):
    """A key exceeds a memory budget even if no other key is loaded.

    parts: the bytes of each part of the memory estimate.
    budget: the budget in bytes.
    """

    status = "FAILED_PRECONDITION"

    def __init__(self, message: str, *, parts: Mapping[str, int], budget: int) -> None:
        self.parts = dict(parts)
        self.budget = budget
        super().__init__(message)


class KeyInUseError(ServiceError):
    """A key cannot be evicted while it is leased or being loaded."""

    status = "FAILED_PRECONDITION"


class KeysBusyError(TryAgainError):
    """A key could not be loaded in time, because the memory is held by other keys in use."""

    status = "RESOURCE_EXHAUSTED"


class UnauthenticatedError(ServiceError):
    """The request has no token, or an unknown one."""

    status = "UNAUTHENTICATED"


class PermissionDeniedError(ServiceError):
    """The client's role, keys, priority or root do not permit the request."""

    status = "PERMISSION_DENIED"
