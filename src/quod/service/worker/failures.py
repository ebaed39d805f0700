"""Whose fault an error of a stage is: the client's, the key's, the device's, or nobody's."""

from __future__ import annotations

from enum import Enum

from quod.device.memory.budget import ran_out_of_memory
from quod.errors import (
    DeviceError,
    InputError,
    QuodError,
    ServiceError,
    TryAgainError,
    VerificationError,
)
from quod.frozen import frozen
from quod.service.errors import LeaseLostError
from quod.service.worker.pools.pool import Stage
from quod.service.worker.work import GoneError


class Fault(Enum):
    """What becomes of a partition after an error."""

    REQUEST = "request"
    """It would fail again: the job has failed."""
    MEMORY = "memory"
    """There was too little memory: tried again, with less at a time."""
    DEVICE = "device"
    """Its device failed: tried again."""
    LOST = "lost"
    """Its device is lost, and has to be opened again."""
    BUSY = "busy"
    """Something was not to be had for now: given back."""
    GONE = "gone"
    """Nobody wants it any more."""


@frozen
class Failure:
    """An error as the queue is told of it; the message says nothing of the witness."""

    fault: Fault
    code: str
    message: str


def failure_of(error: BaseException, stage: Stage, *, device_is_lost: bool = False) -> Failure:
    """What an error of a stage means."""
    if isinstance(error, (GoneError, LeaseLostError)):
        return Failure(Fault.GONE, "CANCELLED", "nobody wants it any more")
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
        # Others have made the proof again by now; see the arbiter.
        return Failure(
            Fault.REQUEST, "INVALID_ARGUMENT",
            "the witness does not satisfy the circuit: no proof made of it verifies; compute it "
            "again with the program of the same compilation as the key",
        )  # fmt: skip
    if isinstance(error, DeviceError):
        return Failure(Fault.DEVICE, "INTERNAL", str(error))
    if isinstance(error, QuodError):
        return Failure(Fault.REQUEST, "INTERNAL", str(error))
    # The text of an error that nobody foresaw may hold anything.
    return Failure(Fault.DEVICE, "INTERNAL", f"{type(error).__name__} at the stage {stage.value}")
