"""Benchmarks of lookups, from columns in memory to the last message, with the transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import QuodError
from quod.field.array import Words
from quod.field.spec import FieldSpec
from quod.lookup.counts import LookupInputs, to_words
from quod.lookup.run import LookupRun
from quod.lookup.statement import Range
from quod.lookup.verifier import verify
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript


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
    run = LookupRun(device, lookup.statement)
    run.set_values(lookup.columns, lookup.entries(device), lookup.counted(device))

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
