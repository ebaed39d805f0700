"""The interface of polynomial commitment schemes.

A prover commits to a multilinear polynomial, given by its values on the boolean hypercube, and
later proves its values at points that are drawn after the commitment. `Scheme` has the parameters
that both sides agree on; `Committer` is the prover on a device, `Commitment` a commitment that the
verifier has read.

**No scheme here is hiding**: the messages of every scheme reveal information about the committed
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.element_bytes import Plain, check_elements
from quod.field.integers import Integers
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import MIN_BITS, check_bits
from quod.transcript.messages import ProofReader, ProofWriter
from quod.validation import whole_number

MAX_LOG2_SIZE = 32
"""The largest number of variables of a committed polynomial."""


@frozen
class Claim:
    """An evaluation claim about a committed polynomial, over the field of challenges.

    point: a coordinate per variable; the first variable is the highest bit of a table's index.
    value: the value of the polynomial at the point.
    """

    point: tuple[Plain, ...]
    value: Plain


class Committer(Protocol):
    """A prover for polynomials of one size, one after the other, with its device memory."""

    def commit(self, table: Buffer | Integers, writer: ProofWriter) -> None:
        """Send the commitment to a table.

        table: 2**log2_size elements of the prime field, in the form that it has in memory (see
            `quod.field.moduli`), or as many integers; entry j is the value at hypercube point j.
            `open` reads the table again, so it must not change until then.
        """

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Prove one or more claims about the table that was committed to last."""


class Commitment(Protocol):
    """A commitment that a verifier has read."""

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Verify the opening of claims.

        Raises VerificationError if it does not prove them, and InputError for malformed bytes.
        """


class Scheme(Protocol):
    """A commitment scheme with all its parameters.

    In every method `field` is the field of the challenges; tables are over its prime field.
    """

    @property
    def name(self) -> str:
        """The scheme's name on the command line."""

    def parameters(self) -> str:
        """Return the parameters as the text that the transcript absorbs with the statement."""

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Return, for each step of the protocol, the probability that it lets a false claim pass.

        Attacks on the hash function are not included.
        """

    def committer(
        self, device: AnyDevice, field: FieldSpec, log2_size: int, *, allow_bits: int = MIN_BITS
    ) -> Committer:
        """Allocate a prover.

        Raises InputError if `error_terms` leave less than `allow_bits` bits of security.
        """

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> Commitment:  # fmt: skip
        """Read a commitment.

        Raises InputError for malformed bytes, and if `error_terms` leave less than `allow_bits`
        bits of security.
        """


def check_size(log2_size: int) -> int:
    """Return the number of variables; InputError unless it is in 0 to `MAX_LOG2_SIZE`."""
    return whole_number("log2_size", log2_size, 0, MAX_LOG2_SIZE)


def check_scheme_bits(
    scheme: Scheme, field: FieldSpec, log2_size: int, allow_bits: int
) -> None:  # fmt: skip
    """Raise InputError if an opening of 2**log2_size entries has too few bits of security.

    allow_bits: the minimum.
    """
    terms = scheme.error_terms(field, log2_size)
    what = f"an opening by {scheme.parameters()} of 2^{log2_size} entries over {field.name}"
    check_bits(what, terms, allow_bits)


def check_claims(field: FieldSpec, log2_size: int, claims: Sequence[Claim]) -> list[Claim]:
    """Return claims about a polynomial of `log2_size` variables as a list.

    Raises InputError unless there is at least one claim, and each is well formed.
    """
    # Copy first: a check would exhaust an iterator, and then no claim would be verified.
    claim_list = list(claims)
    if not claim_list:
        raise InputError("claims must be a list of at least one Claim; it is empty")
    for claim in claim_list:
        if len(claim.point) != log2_size:
            raise InputError(f"the point of a claim must be a tuple of {log2_size} elements")
        check_elements(field, "a claim", (*claim.point, claim.value))
    return claim_list
