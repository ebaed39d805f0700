"""Benchmarks of lookups, from columns in memory to the last message, with the transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.commitment.ligero.scheme import Ligero
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, QuodError
from quod.field.array import Words
from quod.field.integers import Integers
from quod.field.spec import FieldSpec
from quod.lookup.inputs import LookupInputs, to_words
from quod.lookup.run import LookupRun
from quod.lookup.statement import Range
from quod.lookup.verifier import verify
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript

_BYTES_PER_LOOKUP = 96
"""Bytes of device memory for a lookup with its encoded commitments at two rates."""


def cases(
    device: str, field: FieldSpec, sizes: Sequence[int], *, columns: int, bits: int, width: int
) -> Iterator[Case]:
    """Yield lookups of `columns` columns with 2**k values below 2**bits, for each size 2**k.

    width: above 1, rows and the 2**bits entries of a table are tuples of so many elements.
    """
    opened_device = open_device(device)
    for log2_size in sizes:
        parameters: dict[str, Parameter] = {
            "field": field.name, "log2": log2_size, "columns": columns, "bits": bits,
        }  # fmt: skip
        if width > 1:
            parameters["width"] = width
        run = prepared(opened_device, drawn(opened_device, field, columns, log2_size, bits, width))
        yield Case(parameters, run, "ms", traced=run)


def integer_cases(
    device: str, field: FieldSpec, sizes: Sequence[int] | None, *, columns: int, bits: int
) -> Iterator[Case]:
    """Yield the steps of committed lookups of integers of 8, 16 or 32 bits in device memory.

    sizes: by default 28 on a device with the memory for it, else 18.
    """
    opened_device = open_device(device)
    for log2_size in sizes or [_largest_size(opened_device)]:
        dtype = np.dtype(next(f"u{size}" for size in (1, 2, 4) if bits <= 8 * size))
        parameters: dict[str, Parameter] = {
            "field": field.name, "log2": log2_size, "columns": columns, "bits": bits,
            "integers": str(dtype),
        }  # fmt: skip
        generator, lookups = np.random.default_rng(log2_size), columns << log2_size
        numbers = generator.integers(0, 1 << bits, lookups, dtype)
        memory, size = opened_device.upload(numbers), dtype.itemsize << log2_size
        arrays = [
            Integers(memory.slice(number * size, (number + 1) * size), dtype)
            for number in range(columns)
        ]
        inputs = LookupInputs(field, arrays, Range(bits))
        steps: dict[str, Callable[..., None]] = {
            "count": lambda inputs=inputs: inputs.counted(opened_device),
            "lookup": prepared(opened_device, inputs),
            **{
                f"commit, rate 1/{1 << scheme.log_blowup}": _commitment(
                    opened_device, scheme, field, arrays, log2_size
                )
                for scheme in (Ligero(), Ligero(log_blowup=1))
            },
        }
        for step, run in steps.items():
            yield Case({**parameters, "step": step}, run, "ns/lookup", operations=lookups)


def _largest_size(device: AnyDevice) -> int:
    """Return log2 of the lookups that fit the device, 28 or 18."""
    try:
        device.check_budget("lookups", _BYTES_PER_LOOKUP << 28)
    except DeviceError:
        return 18
    return 18 if device.host_memory else 28


def _commitment(
    device: AnyDevice, scheme: Ligero, field: FieldSpec, columns: Sequence[Integers],
    log2_size: int,
) -> Callable[..., None]:  # fmt: skip
    """Return a function that commits to columns, one after the other, in the same memory."""
    committer = scheme.committer(device, field, log2_size, allow_bits=0)

    def commit() -> None:
        for column in columns:
            committer.commit(column, ProofWriter(_transcript()))

    return commit


def drawn(
    device: AnyDevice, field: FieldSpec, columns: int, log2_size: int, bits: int, width: int
) -> LookupInputs:
    """Draw random rows of a range, or of a table whose row i is (i, 2 * i, ..., width * i)."""
    generator = np.random.default_rng(log2_size)

    def row(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Words]:
        return [to_words(device, field.modulus, numbers * (index + 1)) for index in range(width)]

    looked_up = [row(generator.integers(0, 1 << bits, 1 << log2_size)) for _ in range(columns)]
    table = Range(bits) if width == 1 else row(np.arange(1 << bits))
    return LookupInputs(field, looked_up, table)


def prepared(device: AnyDevice, lookup: LookupInputs) -> Callable[..., None]:
    """Return a function that proves lookups in memory; verifies the first proof."""
    columns = lookup.placed(device)
    run = LookupRun(device, lookup.statement, columns)
    run.set_table(lookup.entries(device), lookup.counted(device, columns))

    def prove(timeline: Timeline | None = None) -> None:
        run.prove(ProofWriter(_transcript()), timeline)

    writer = ProofWriter(_transcript())
    reduced_claims = run.prove(writer, timeline=None)
    if (
        verify(lookup.statement, writer.getvalue(), transcript=_transcript(), allow_bits=0)
        != reduced_claims
    ):
        raise QuodError("a lookup does not verify; please report it")
    return prove


def _transcript() -> Transcript:
    """Create a transcript with a dummy commitment: commitments are not measured."""
    transcript = Transcript()
    transcript.absorb(Label.COMMITMENT, b"quod bench lookup")
    return transcript
