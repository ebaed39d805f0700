"""Lookups of committed columns: commitments, the lookup argument, and openings."""

from __future__ import annotations

from collections.abc import Sequence

from quod.commitment.raw import Raw, evaluated
from quod.commitment.scheme import Claim, Commitment, Scheme
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, VerificationError
from quod.field.array import Words, to_integers
from quod.field.element_bytes import encode
from quod.field.spec import FieldSpec
from quod.hash.table import Hash, check_tree_hash
from quod.lookup.inputs import Column, LookupInputs, table_arrays
from quod.lookup.prover import wrong_proof
from quod.lookup.run import LookupRun
from quod.lookup.statement import Range, Statement, check_lookup
from quod.lookup.verifier import Reduced, read
from quod.security import MIN_BITS
from quod.transcript.elements import describe
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter
from quod.transcript.transcript import Transcript

PROTOCOL = "quod committed lookup 2"


def prove_committed(
    device: DeviceChoice,
    field: FieldSpec,
    columns: Sequence[Column],
    table: Column | Range,
    *,
    scheme: Scheme = Raw(),  # noqa: B008
    hash: Hash = Hash.SHA3_256,
    recursive: bool = False,
    allow_bits: int = MIN_BITS,
    timeline: Timeline | None = None,
) -> bytes:
    """Commit to columns, and prove that each of their rows is an entry of a table.

    The arguments are those of `prove`. The verifier knows the table, and learns the commitments.
    `hash` is the hash of the transcript; a hash over the field needs `recursive`. Raises InputError
    if the error terms of the lookups and of all openings together leave fewer bits than
    `allow_bits`. The proof is checked before it is returned.
    """
    device = resolve_device(device)
    check_tree_hash(scheme, recursive)
    inputs = LookupInputs(field, columns, table)
    statement = inputs.statement
    transcript = Transcript(hash=hash, recursive=recursive)
    check_lookup(statement, transcript.hash, allow_bits, scheme)
    columns_in_place = inputs.placed(device)
    counts = inputs.counted(device, columns_in_place)
    run = LookupRun(device, statement, columns_in_place, transcript.hash)
    run.set_table(inputs.entries(device), counts)
    writer = ProofWriter(transcript)
    _begin(writer.transcript, statement, scheme, inputs.table)
    tables = [table for column in columns_in_place.tables() for table in column]
    # `check_lookup` has checked the bits of all openings together.
    committers = [scheme.committer(device, field, size, allow_bits=0) for size in _sizes(statement)]
    for committer, committed in zip(committers, [*tables, run.counts], strict=True):
        committer.commit(committed, writer)
    try:
        reduced = run.prove(writer, timeline)
        for committer, claim in zip(committers, _claims(reduced), strict=True):
            committer.open([claim], writer)
        proof = writer.getvalue()
        explicit_table = None if inputs.table is None else table
        verify_committed(
            statement, proof, explicit_table, scheme=scheme, hash=hash, recursive=recursive,
            allow_bits=allow_bits,
        )  # fmt: skip
    except (VerificationError, InputError) as error:
        raise wrong_proof(device, error) from None
    return proof


def verify_committed(
    statement: Statement, proof: bytes, table: Column | Range | None = None, *,
    scheme: Scheme = Raw(),  # noqa: B008
    hash: Hash = Hash.SHA3_256,
    recursive: bool = False,
    allow_bits: int = MIN_BITS,
) -> list[Commitment]:  # fmt: skip
    """Verify that all rows are in the table, and return the commitments to the columns.

    Each column has as many commitments as an entry has elements. `table`, `hash` and `recursive`
    must be those of the prover; a range is part of the statement.
    Raises VerificationError if the proof does not hold, and InputError for malformed bytes and if
    `error_terms` with the scheme leave fewer bits than `allow_bits`.
    """
    check_tree_hash(scheme, recursive)
    field, transcript = statement.field, Transcript(hash=hash, recursive=recursive)
    check_lookup(statement, transcript.hash, allow_bits, scheme)
    explicit_table = None
    if not isinstance(statement.table, Range):
        if table is None:
            raise InputError(
                "the table of the statement is not a range; pass its entries as table="
            )
        explicit_table = table_arrays(statement, table)
    elif table is not None and not (isinstance(table, Range) and table == statement.table):
        raise InputError("the table of the statement is a range; do not pass table=")
    reader = ProofReader(proof, transcript)
    _begin(transcript, statement, scheme, explicit_table)
    commitments = [scheme.read(reader, field, size, allow_bits=0) for size in _sizes(statement)]
    reduced = read(statement, reader)
    for commitment, claim in zip(commitments, _claims(reduced), strict=True):
        commitment.check([claim], reader)
    reader.end()
    if explicit_table is not None:
        for array, value in zip(explicit_table, reduced.entry, strict=True):
            entries = to_integers(field.modulus, array)
            if evaluated(field, entries, reduced.table_point).coefficients != value:
                raise VerificationError("the proof was made for another table")
    return commitments[:-1]


def _begin(
    transcript: Transcript, statement: Statement, scheme: Scheme, table: Sequence[Words] | None
) -> None:
    transcript.begin(PROTOCOL)
    transcript.absorb(Label.FIELD, describe(statement.field))
    parameters = f"{statement.columns} {statement.log2_size} {statement.table} {scheme.name} "
    transcript.absorb(Label.PARAMETERS, (parameters + scheme.parameters()).encode())
    if table is None:
        transcript.absorb(Label.PUBLIC_INPUT, b"")
    else:
        data = _table_bytes(statement, table)
        transcript.absorb_digest(Label.PUBLIC_INPUT, statement.field.modulus, data)


def _table_bytes(statement: Statement, arrays: Sequence[Words]) -> bytes:
    """Return the bytes of a table's arrays, concatenated."""
    modulus = statement.field.modulus
    return b"".join(encode(modulus, [(n,) for n in to_integers(modulus, a)]) for a in arrays)


def _sizes(statement: Statement) -> list[int]:
    """Return log2 of the committed sizes: the columns' arrays, then the multiplicities."""
    arrays = sum(map(statement.arrays, range(statement.columns)))
    return [statement.log2_size] * arrays + [statement.table.log2_size]


def _claims(reduced: Reduced) -> list[Claim]:
    """Return the claims to open: about the columns, then about the multiplicities."""
    columns = [Claim(reduced.point, value) for column in reduced.columns for value in column]
    return [*columns, Claim(reduced.table_point, reduced.multiplicity)]
