"""What a polynomial commitment is to whoever proves with one.

A prover commits to a multilinear polynomial, given by its values at all corners of a cube, and
later shows what it is at points that were drawn since. `Scheme` is the protocol that both sides
agree on; `Committer` is its prover on a device, `Commitment` what its verifier has read.

**No scheme here hides anything**: what it sends tells about the values that are committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.element_bytes import Plain, check_elements
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import LEAST_BITS, check_bits
from quod.transcript.messages import ProofReader, ProofWriter
from quod.validation import instance, whole_number

MOST_LOG2_SIZE = 32
"""Variables that a committed polynomial may have at most."""


@frozen
class Claim:
    """That the committed polynomial is `value` at `point`, elements of the field of challenges.

    The point has a coordinate a variable, the first the one that is the highest bit of a corner's
    number.
    """

    point: tuple[Plain, ...]
    value: Plain


class Committer(Protocol):
    """A prover's memory on a device, for polynomials of one size, one after the other."""

    def commit(self, table: Buffer, writer: ProofWriter) -> None:
        """Sends the commitment to a table of 2**log2_size elements of the prime field.

        They are in the form of memory, entry j the value at corner j. The table is read again by
        `open`, and must be as it is until then.
        """

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Shows one claim or more about the table that was committed last."""


class Commitment(Protocol):
    """A commitment that a verifier has read."""

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Reads what shows the claims.

        VerificationError for what does not show them, InputError for what is no such proof.
        """


class Scheme(Protocol):
    """A commitment scheme with all its parameters.

    Tables are of the prime field under `field`, that of the challenges.
    """

    @property
    def name(self) -> str:
        """By which commands know the scheme."""

    def parameters(self) -> str:
        """All that a verifier must know beforehand, as the text that a statement absorbs."""

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """How likely false claims are accepted, by what goes wrong; the hash is not among it."""

    def committer(
        self, device: AnyDevice, field: FieldSpec, log2_size: int, *, allow_bits: int = LEAST_BITS
    ) -> Committer:
        """Allocates the memory of a prover; InputError if `error_terms` leave fewer bits."""

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = LEAST_BITS,
    ) -> Commitment:  # fmt: skip
        """Reads a commitment; InputError for malformed bytes and where fewer bits are shown."""


def check_size(field: FieldSpec, log2_size: int) -> int:
    """The number of variables; InputError outside 0 to `MOST_LOG2_SIZE`."""
    return whole_number("log2_size", log2_size, 0, MOST_LOG2_SIZE)


def check_scheme_bits(
    scheme: Scheme, field: FieldSpec, log2_size: int, allow_bits: int
) -> None:  # fmt: skip
    """InputError if an opening of a table of 2**log2_size entries has fewer bits."""
    terms = scheme.error_terms(field, log2_size)
    what = f"an opening by {scheme.parameters()} of 2^{log2_size} entries over {field.name}"
    check_bits(what, terms, allow_bits)


def check_claims(field: FieldSpec, log2_size: int, claims: Sequence[Claim]) -> list[Claim]:
    """At least one claim about a polynomial of so many variables; InputError for anything else."""
    # An iterator, of which nothing is left after the checks, must not pass as claims that hold.
    checked = list(claims)
    if not checked:
        raise InputError("claims are a list of at least one Claim; this one is empty")
    for claim in checked:
        if len(claim.point) != log2_size:
            raise InputError(f"the point of a claim is a tuple of {log2_size} elements")
        check_elements(field, "a claim", (*claim.point, claim.value))
    return checked


def check_table(field: FieldSpec, log2_size: int, table: object) -> Buffer:
    """InputError for what is no table of so many elements of the prime field."""
    checked = instance("the table", table, Buffer, "upload one to the device")
    size = field.modulus.bytes << log2_size
    if checked.nbytes != size:
        raise InputError(
            f"the table has {checked.nbytes} bytes; 2**{log2_size} elements of "
            f"{field.modulus.name} take {size}"
        )
    return checked
