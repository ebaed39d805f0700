"""Lanes and recordings that compute the sums of proofs on a GPU.

See `quod.groth16.gpu.key`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from quod.device.cache.compilations import compilations
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.event import Event
from quod.device.runtime.future import Outcome
from quod.device.runtime.stream import RecordingStream, SubmittedStream
from quod.errors import DeviceError, QuodError
from quod.groth16.context import ProofContext
from quod.groth16.gpu.bases import KeyMsms, RecordedPointArrays, RecordedPoints
from quod.groth16.gpu.gpu_sums import end_after, replay
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.upload import LINGER_SECONDS
from quod.msm.gpu.run.record_buckets import RecordedMsm

# The sums of A and of B. Those of G1 come first, as their kernels take longest to assemble.
_EARLY = ("A", "B1", "B2")


class Lane:
    """Vectors, workspaces and a thread that proofs use one after the other.

    Proofs in different lanes run concurrently on the same matrices and bases.
    """

    def __init__(self, quotient: Quotient, msms: KeyMsms) -> None:
        self.quotient, self.msms = quotient, msms
        # Slots share workspaces, so their recordings run one after the other.
        self.runner = Background("quod-gpu", 1, linger=LINGER_SECONDS)

    def sibling(self, batches: Sequence[int] = (1,)) -> Lane:
        """Return another lane on the same matrices and bases, for any of these batch sizes."""
        return Lane(self.quotient.sibling(max(batches)), self.msms.sibling(batches))

    def batch_bytes(self, batches: Sequence[int]) -> int:
        """Return the bytes of a lane for any of these batch sizes."""
        return self.quotient.batch_bytes(max(batches)) + sum(self.msms.workspace_sizes(batches))


def _compile_ahead(device: AnyDevice, lane: Lane, witness: Buffer, batch: int) -> None:
    """Begin to compile the kernels of G2 and of the quotient, while this thread compiles others.

    Recording compiles them; the recordings never run.
    """

    def ahead(record: Callable[[RecordingStream], object]) -> Callable[[], None]:
        def run() -> None:
            # The recording that runs raises the errors.
            with compilations.texts_from_helpers(), suppress(QuodError):
                record(device.stream("ahead").record())

        return run

    background = Background("quod-record", 2)
    if lane.msms.is_resident("B2"):
        background.begin(ahead(lambda stream: lane.msms.record(stream, "B2", witness, batch)))
    background.begin(ahead(lambda stream: lane.quotient.record(stream, witness, batch)))


class SumRecordings:
    """Recordings of the sums of a witness in a lane, or of a `batch` of witnesses.

    early: the sums that A and B need. The host continues with them while the GPU computes `late`.
    late: the other sums, C and H.
    joint: all of them.
    """

    def __init__(
        self, device: AnyDevice, lane: Lane, witness: Buffer, batch: int | None = None
    ) -> None:
        self._device = device
        msms, quotient, batch_size = lane.msms, lane.quotient, batch or 1

        def finished_points(recorded: dict[str, RecordedMsm | None]) -> RecordedPoints:
            if batch is None:
                return RecordedPoints(recorded)
            return RecordedPointArrays(
                recorded, {name: msms.group(name) for name in recorded}, batch
            )

        if compilations.is_running:
            _compile_ahead(device, lane, witness, batch_size)
        early_stream = late_stream = device.stream("proof").record()
        early: dict[str, RecordedMsm | None] = {
            name: msms.record(early_stream, name, witness, batch_size) for name in _EARLY
        }
        self._early_event: Event | None = None
        if device.single_queue:
            self._early_event = early_stream.event("the sums of A and B")
        elif msms.has_own_workspace("H"):
            # Steps that use the same memory are in one recording, which orders them.
            late_stream = device.stream("proof").record()
        c = msms.record(early_stream, "C", witness, batch_size)
        h = msms.record(
            late_stream, "H", quotient.record(late_stream, witness, batch_size), batch_size
        )
        late = {"C": c, "H": h}
        self.early, self.late = finished_points(early), finished_points(late)
        self.joint = finished_points(early | late)
        self._recordings = [
            stream.finish().recording for stream in dict.fromkeys((early_stream, late_stream))
        ]

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        # With a timeline, the steps run one after the other and are timed.
        step_timeline = context.timeline if context.is_timed else None
        running_streams: list[SubmittedStream] = []
        try:
            # An abandoned proof may have left results in the slot.
            self.early.reset_results()
            self.late.reset_results()
            if step_timeline is None:
                # Submit the recording with the longest critical path first.
                for recording in reversed(self._recordings):
                    running_streams.append(replay(self._device, recording))
            # `running_streams` has the streams of the recordings in reverse order.
            for recording in self._recordings:
                stream = (
                    running_streams.pop()
                    if running_streams
                    else replay(self._device, recording, step_timeline, context)
                )
                if self._early_event is not None:
                    # If the stream fails before this event, `stream.wait` reports the error.
                    with suppress(DeviceError):
                        self._early_event.wait()
                        early_done.set(None)
                stream.wait()
                if not early_done.done():
                    early_done.set(None)
        except BaseException as error:
            end_after(error, early_done, running_streams)
            raise
