"""The prover of lookups: all values of some columns are in a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.array import Words
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.lookup.inputs import Column, LookupInputs, check_multiplicities
from quod.lookup.run import LookupRun
from quod.lookup.statement import Range, Statement, check_lookup
from quod.lookup.verifier import Reduced, read
from quod.security import MIN_BITS
from quod.transcript.messages import ProofReader, ProofWriter
from quod.transcript.transcript import Transcript
from quod.validation import flag


@frozen
class LookupProof:
    """A proof of a statement, and the evaluation claims that remain to be checked."""

    statement: Statement
    data: bytes
    reduced: Reduced


def multiplicities(
    device: DeviceChoice, field: FieldSpec, columns: Sequence[Column], table: Column | Range
) -> Words:
    """Count the lookups of each entry of a table, as elements of the prime field.

    The arguments are those of `prove`. One of several equal entries gets all of their lookups.
    InputError names the first row of a column that is not in the table.
    """
    return LookupInputs(field, columns, table).counted(resolve_device(device))


def prove(
    device: DeviceChoice,
    field: FieldSpec,
    columns: Sequence[Column],
    table: Column | Range,
    multiplicities: Words,
    *,
    transcript: Transcript,
    allow_bits: int = MIN_BITS,
    check: bool = True,
    timeline: Timeline | None = None,
) -> LookupProof:
    """Prove that each row of each column is an entry of a table.

    field: the field of the challenges; all values are in its prime field, in memory form.
    columns: each has 2**n rows: an array (2**n, words) of elements, a one-dimensional array of
        integers on the host or the device, `Integers`, an `Affine` form of integers, or a list of
        these, one per element of an entry. All columns have the same types.
    table: such arrays of 2**m entries, or a `Range`.
    multiplicities: the result of `multiplicities`.
    transcript: must have absorbed commitments to, or digests of, each column, the multiplicities
        and a table that is not a range (`Transcript.absorb_table`).
    check: verify the proof before it is returned. A caller that verifies a larger proof which
        contains this one saves the time.
    InputError for arguments that do not fit together, for a row that is not in the table, and if
    `error_terms` leave fewer bits than `allow_bits`.
    """
    device = resolve_device(device)
    transcript.check_bound()
    inputs = LookupInputs(field, columns, table)
    check_lookup(inputs.statement, transcript.hash, allow_bits)
    counts = check_multiplicities(inputs.statement, multiplicities)
    writer, before = ProofWriter(transcript), transcript.copy()
    placed = inputs.placed(device)
    run = LookupRun(device, inputs.statement, placed, writer.transcript.hash)
    run.set_table(inputs.entries(device), counts)
    try:
        reduced = run.prove(writer, timeline)
        if flag("check", check):
            reader = ProofReader(writer.getvalue(), before)
            if read(inputs.statement, reader) != reduced:
                raise VerificationError("the claims differ from those of the proof")
    except (VerificationError, InputError) as error:
        if not np.array_equal(inputs.counted(device, placed), counts):
            raise InputError(
                "the multiplicities do not match the columns; compute them with multiplicities()"
            ) from None
        raise wrong_proof(device, error) from None
    return LookupProof(inputs.statement, writer.getvalue(), reduced)


def wrong_proof(device: AnyDevice, error: Exception) -> DeviceError:
    """Return the error for a device whose proof does not verify."""
    return DeviceError(
        f"{device.name} made a proof that does not verify ({error}); its memory or its driver may "
        "be faulty"
    )
