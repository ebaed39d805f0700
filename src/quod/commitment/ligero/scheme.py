"""Ligero: a table as a matrix whose rows are encoded, and a Merkle tree over its columns.

Ames, Hazay, Ishai and Venkitasubramaniam, "Ligero", CCS 2017, as a commitment to multilinear
polynomials. A claim's sum over the upper variables is reduced by a sumcheck to one combination of
the rows, which the prover sends. The verifier compares the combination's codeword with randomly
drawn columns. The first round of Ligerito (Novakovic and Angeris, eprint 2025/1187) does the same,
but commits to the combination instead of sending it.
"""

from __future__ import annotations

from fractions import Fraction

from quod.commitment.ligero.code import Code, max_log_length
from quod.commitment.ligero.prover import LigeroCommitter
from quod.commitment.ligero.shape import MAX_CLAIMS, LigeroShape
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.commitment.scheme import check_scheme_bits, check_size
from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.security import MIN_BITS
from quod.transcript.elements import most_likely
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.validation import whole_number

_MAX_BITS = 64
_MAX_LOG_LENGTH = 32
# log2 of the smaller of the two possible ratios of row length to column length.
_LOG_ASPECT = 4


@frozen
class Ligero:
    """The Ligero scheme, over primes below 2**64 whose field or circle has enough points.

    log_blowup: codewords ("words") are 2**log_blowup times as long as rows.
    column_bits: the number of opened columns is chosen so that a wrong word passes all of them with
        probability below 2**-column_bits; by default 162 or 163 columns of a long word.
    """

    log_blowup: int = 2
    column_bits: int = 110
    hash: Hash = Hash.SHA3_256
    """The hash of the Merkle tree; for verification in a circuit, one over the tables' field."""

    def __post_init__(self) -> None:
        log_blowup = whole_number("log_blowup", self.log_blowup, 1, 4)
        # Convert NumPy integers, which would wrap around, so that no column would be opened.
        column_bits = whole_number("column_bits", self.column_bits, 1, 256)
        self.__dict__.update(log_blowup=log_blowup, column_bits=column_bits)

    @property
    def name(self) -> str:
        """The scheme's name on the command line."""
        return "ligero"

    def parameters(self) -> str:
        """Return the parameters as the text that a statement absorbs."""
        return f"ligero 1/{1 << self.log_blowup} {self.column_bits} {self.hash.value}"

    def shape(self, field: FieldSpec, log2_size: int) -> LigeroShape:
        """Return the matrix of a table; raises InputError for an unsupported field or size."""
        log2_size = check_size(log2_size)
        modulus = field.modulus
        max_log_message = max_log_length(modulus) - self.log_blowup
        if modulus.bits > _MAX_BITS or max_log_message < 0:
            raise InputError(
                f"Ligero does not support tables over {modulus.name}: it needs a prime "
                f"of at most {_MAX_BITS} bits with roots of unity of order 2^k, or "
                "such points on the circle"
            )
        if self.hash.field not in (None, modulus):
            raise InputError(f"the tree's {self.hash.value} cannot hash elements of {modulus.name}")
        if log2_size + self.log_blowup > _MAX_LOG_LENGTH:
            raise InputError(
                f"tables of 2^{log2_size} entries are too long for Ligero: their "
                f"codewords have more than 2^{_MAX_LOG_LENGTH} entries"
            )
        log_message = min(log2_size, max_log_message, (log2_size + _LOG_ASPECT + 1) // 2)
        code = Code(modulus, log_message, log_message + self.log_blowup)
        return LigeroShape(field, log2_size - log_message, code, self.column_bits, self.hash)

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Return the probability that a false claim is accepted, by the failing step.

        "rows combined" bounds the case that rows far from the code combine to a word close to it,
        within the unique decoding radius: Diamond and Gruen, "Proximity gaps in interleaved
        codes", 2025, with the gap of Ben-Sasson et al., "Proximity gaps for Reed-Solomon codes",
        FOCS 2020, theorem 4.1. docs/commitments.md has the argument.
        """
        shape, challenge_error = self.shape(field, log2_size), most_likely(field)
        return {
            "claims combined": (MAX_CLAIMS - 1) * challenge_error,
            "rounds of the opening's sumcheck": 2 * shape.log_rows * challenge_error,
            "rows combined": shape.log_rows * (shape.code.length + 1) * challenge_error,
            "columns": shape.miss,
        }

    def committer(
        self, device: DeviceChoice, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> LigeroCommitter:  # fmt: skip
        """Allocate a prover; InputError if `error_terms` leave fewer than `allow_bits` bits."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        return LigeroCommitter(resolve_device(device), self.shape(field, log2_size))

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> LigeroCommitment:  # fmt: skip
        """Read a commitment, the root of the tree.

        InputError if the proof is truncated, or if `error_terms` leave fewer than `allow_bits`
        bits.
        """
        check_scheme_bits(self, field, log2_size, allow_bits)
        shape = self.shape(field, log2_size)
        return LigeroCommitment(shape, reader.message(Label.COMMITMENT, 32))
