"""What the service refuses, by the code of gRPC that its clients see (`status`).

Wrong arguments are `InputError` as everywhere (INVALID_ARGUMENT). No message holds a witness, or
the name of the file that has it.
"""

from __future__ import annotations

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
