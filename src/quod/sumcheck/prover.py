"""Prove a sum over tables in host memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.array import Words, check_canonical
from quod.field.element_bytes import Plain, check_elements, encode
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import MIN_BITS
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import SumcheckRun
from quod.sumcheck.shape import Shape
from quod.sumcheck.verifier import Reduced, Statement, check_sumcheck, verify
from quod.transcript.transcript import Transcript
from quod.validation import plain_array


@frozen
class SumcheckProof:
    """A proof of a statement, and the claims about table values that remain to be checked."""

    statement: Statement
    data: bytes
    reduced: Reduced


def prove(
    device: DeviceChoice,
    field: FieldSpec,
    polynomial: SumOfProducts,
    tables: Sequence[Words],
    *,
    point: Sequence[Plain] | None = None,
    transcript: Transcript,
    allow_bits: int = MIN_BITS,
    timeline: Timeline | None = None,
) -> SumcheckProof:
    """Compute the sum of a polynomial in multilinear tables over the hypercube, and prove it.

    field: the field of challenges.
    tables: uint32 arrays of shape (2**n, words), of elements of `field` or of its prime field in
        the stored form (`quod.field.from_integers`). Variable 0 is the highest bit of an index.
    point: n elements; the sum is then weighted by eq of the point.
    transcript: it must have absorbed a commitment to each table, or its digest
        (`Transcript.absorb_table`); it absorbs the statement and the proof.
    The proof is verified before it is returned; DeviceError if that fails. Raises InputError for
    arguments that do not belong together, and if the proof has less than `allow_bits` bits of
    soundness (`quod.sumcheck.verifier.error_terms`).
    """
    device = resolve_device(device)
    # With a transcript that binds no table, a prover could choose tables after the challenges.
    transcript.check_bound()
    arrays, in_base, log2_size = _checked_tables(field, polynomial, tables)
    tables_in_order = [*in_base, *(t for t in range(polynomial.tables) if t not in in_base)]
    index_of = {table: index for index, table in enumerate(tables_in_order)}
    reordered = SumOfProducts(
        tuple((c, tuple(index_of[t] for t in factors)) for c, factors in polynomial.terms)
    )
    if point is not None:
        point = check_elements(field, "the point", point)
        if len(point) != log2_size:
            raise InputError(
                f"tables of 2^{log2_size} entries need a point of {log2_size} coordinates, not "
                f"{len(point)}"
            )
    # The error terms do not depend on the claim.
    placeholder_claim = (0,) * field.degree
    unclaimed = Statement(field, polynomial, log2_size, placeholder_claim, point)
    check_sumcheck(unclaimed, transcript, allow_bits)
    shape = Shape(
        field, reordered, in_base=len(in_base), has_point=point is not None, hash=transcript.hash
    )
    run = SumcheckRun(device, shape, log2_size)
    for index, table in enumerate(tables_in_order):
        run.set_table(index, np.ascontiguousarray(arrays[table]))
    if point is not None:
        run.set_point(point)
    claim = run.sum()
    statement = Statement(field, polynomial, log2_size, claim, point)
    # The device continues a copy that has absorbed the statement. The caller's transcript absorbs
    # the statement in `verify`.
    absorbed_transcript = transcript.copy()
    statement.absorb(absorbed_transcript)
    rounds = run.prove(claim, absorbed_transcript.state, timeline)
    values = [rounds.values[index_of[table]] for table in range(polynomial.tables)]
    data = rounds.messages + encode(field, values)
    try:
        reduced = verify(statement, data, transcript=transcript, allow_bits=allow_bits)
    except (VerificationError, InputError) as error:
        raise DeviceError(
            f"{device.name} made a proof that does not verify ({error}); its memory or its driver "
            "may be faulty"
        ) from None
    return SumcheckProof(statement, data, reduced)


def _checked_tables(
    field: FieldSpec, polynomial: SumOfProducts, tables: object
) -> tuple[list[Words], list[int], int]:
    """Return the tables, the indices of those over the prime field, and log2 of their length."""
    if not isinstance(tables, Sequence) or len(tables) != polynomial.tables:
        raise InputError(f"the tables must be a list of {polynomial.tables}, as the polynomial has")
    arrays, in_base, sizes = [], [], set()
    for number, table in enumerate(tables):
        array = plain_array(f"table {number}", table)
        widths = (field.modulus.words, field.words)
        if array.dtype != np.uint32 or array.ndim != 2 or array.shape[1] not in widths:
            raise InputError(
                f"table {number} must be uint32 of shape (entries, {field.words}), or (entries, "
                f"{field.modulus.words}) of the prime field, not {array.dtype} of {array.shape}"
            )
        check_canonical(field.modulus, array.reshape(-1, field.modulus.words))
        if array.shape[1] < field.words:
            in_base.append(number)
        sizes.add(len(array))
        arrays.append(array)
    size = sizes.pop()
    if sizes or size < 2 or size & (size - 1):
        raise InputError("all tables must have the same length, a power of two that is at least 2")
    return arrays, in_base, size.bit_length() - 1
