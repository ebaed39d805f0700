"""Classify errors of a proof by their cause, which decides whether the partition is retried."""

from __future__ import annotations

from enum import Enum

from quod.device.memory.budget import ran_out_of_memory
from quod.errors import (
    DeviceError,
    InputError,
    InsecureKeyError,
    QuodError,
    ServiceError,
    TryAgainError,
    VerificationError,
)
from quod.frozen import frozen
from quod.service.errors import LeaseLostError
from quod.service.worker.pools.pool import Stage
from quod.service.worker.work import AbandonedError


class Fault(Enum):
    """The cause of an error, which decides how its partition continues."""

    REQUEST = "request"
    """The request or the key is wrong: a retry would fail too, so the job fails."""
    MEMORY = "memory"
    """Out of memory: the partition is retried, with fewer partitions at a time."""
    DEVICE = "device"
    """The device failed: the partition is retried."""
    LOST = "lost"
    """The device is lost and must be opened again."""
    BUSY = "busy"
    """A resource is temporarily unavailable: the lease is released."""
    GONE = "gone"
    """The job was cancelled or the lease lost."""


@frozen
class Failure:
    """A failure that a worker reports to the queue; the message has no data of the witness."""

    fault: Fault
    code: str
    message: str


def failure_of(error: BaseException, stage: Stage, *, device_is_lost: bool = False) -> Failure:
    """Classify an error that a stage of a proof raised."""
    if isinstance(error, (AbandonedError, LeaseLostError)):
        return Failure(Fault.GONE, "CANCELLED", "the job was cancelled, or the lease was lost")
    if device_is_lost:
        return Failure(Fault.LOST, "DEVICE_LOST", f"the device was lost: {error}")
    if ran_out_of_memory(error):
        return Failure(Fault.MEMORY, "RESOURCE_EXHAUSTED", f"too little memory: {error}")
    if isinstance(error, TryAgainError):
        return Failure(Fault.BUSY, error.status, str(error))
    if isinstance(error, ServiceError):
        return Failure(Fault.REQUEST, error.status, str(error))
    if isinstance(error, InputError):
        if stage is Stage.KEY:
            return Failure(Fault.REQUEST, "FAILED_PRECONDITION", f"the key is damaged: {error}")
        return Failure(Fault.REQUEST, "INVALID_ARGUMENT", str(error))
    if isinstance(error, VerificationError):
        # Re-verification has already repeated the proof, so the witness is at fault.
        return Failure(
            Fault.REQUEST, "INVALID_ARGUMENT",
            "the witness does not satisfy the circuit: no proof made of it verifies; compute it "
            "again with the program of the same compilation as the key",
        )  # fmt: skip
    if isinstance(error, DeviceError):
        return Failure(Fault.DEVICE, "INTERNAL", str(error))
    if isinstance(error, InsecureKeyError):
        return Failure(Fault.REQUEST, "FAILED_PRECONDITION", str(error))
    if isinstance(error, QuodError):
        return Failure(Fault.REQUEST, "INTERNAL", str(error))
    # The text of an unexpected error may contain secrets.
    return Failure(Fault.DEVICE, "INTERNAL", f"{type(error).__name__} at the stage {stage.value}")
