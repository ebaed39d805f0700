"""The statement of an inference proof: logits of images, under a perceptron's committed weights."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import cached_property

import numpy as np

from quod.commitment.ligero.scheme import Ligero
from quod.commitment.ligero.shape import MAX_CLAIMS
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.errors import InputError, VerificationError
from quod.field.named_extensions import EXTENSIONS
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.inference.layout import LIMB_BITS, ProofLayout
from quod.inference.perceptron import (
    MAX_LAYERS,
    MAX_TABLE_BITS,
    MAX_WIDTH,
    Numbers,
    check_images,
)
from quod.lookup.committed import verify_committed
from quod.lookup.statement import Range, Table
from quod.lookup.statement import Statement as Lookup
from quod.lookup.statement import error_terms as lookup_error_terms
from quod.security import MIN_BITS, bits_of, check_bits
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.transcript.elements import most_likely
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript
from quod.validation import plain_array, shown_kind, whole_number
from quod.wording import alternatives

PROTOCOL = "quod inference 1"

FIELDS: tuple[FieldSpec, ...] = (EXTENSIONS["goldilocks.2"], EXTENSIONS["goldilocks.3"])
"""The fields of challenges; a key takes the first that reaches `MIN_BITS`. All numbers are in
the common prime field, in which no sum overflows."""

SCHEME = Ligero()
"""The scheme of all commitments."""

MANY_IMAGES = 1 << 12
"""The number of images in one proof for which a new key reaches `MIN_BITS`."""

LIMBS = Range(LIMB_BITS)

WEIGHT_OFFSET = 128
"""The offset added to each weight before it is committed, so that it is an unsigned byte."""

WEIGHTS = Range(8)

ROOT_BYTES = 32


@frozen
class VerifyingKey:
    """A perceptron with a commitment in place of its weights; `quod.inference.Prover` creates it.

    widths: the width of the images, then of each layer's outputs.
    table_bits: the base-2 logarithm of the number of entries of the activation table.
    biases, multipliers: public, as those of `quod.inference.Layer`.
    root: the commitment to the weights.
    weights_proof: a proof that the committed weights have eight bits.
    field: the field of the challenges.
    """

    widths: tuple[int, ...]
    table_bits: int
    biases: tuple[tuple[int, ...], ...]
    multipliers: tuple[tuple[int, ...], ...]
    root: bytes
    weights_proof: bytes
    field: FieldSpec = FIELDS[0]

    def __post_init__(self) -> None:
        root: object = self.root
        if type(root) is not bytes or len(root) != ROOT_BYTES:
            raise InputError(f"the root of a key must be {ROOT_BYTES} bytes")
        if self.field not in FIELDS:
            names = alternatives(field.name for field in FIELDS)
            raise InputError(f"the field of a key's challenges must be one of {names}")
        widths: object = self.widths
        if not isinstance(widths, tuple) or not 3 <= len(widths) <= MAX_LAYERS + 1:
            raise InputError(f"the widths of a key must be a tuple of 3 to {MAX_LAYERS + 1}")
        widths = tuple(whole_number("a width", width, 1, MAX_WIDTH) for width in widths)
        table_bits = whole_number("table_bits", self.table_bits, 8, MAX_TABLE_BITS)
        self.__dict__.update(widths=widths, table_bits=table_bits)
        weights_proof = self.weights_proof
        if type(weights_proof) is not bytes:
            raise InputError(
                f"the proof of the weights must be bytes, not {shown_kind(weights_proof)}"
            )
        rows = ("biases", self.biases, 1, -(1 << 31)), ("multipliers", self.multipliers, 2, 0)
        for what, values, missing_layers, minimum in rows:
            rows_object: object = values
            if (
                not isinstance(rows_object, tuple)
                or len(rows_object) != len(widths) - missing_layers
            ):
                raise InputError(f"the {what} of a key must be one tuple per layer")
            rows_of_layers = []
            for row, width in zip(values, widths[1:], strict=False):
                row_object: object = row
                if not isinstance(row_object, tuple) or len(row_object) != width:
                    raise InputError(f"the {what} of a layer must be a tuple of {width}")
                name, maximum = f"one of the {what}", (1 << 31) - 1
                rows_of_layers.append(
                    tuple(whole_number(name, value, minimum, maximum) for value in row)
                )
            self.__dict__[what] = tuple(rows_of_layers)

    def layout(self, images: int) -> ProofLayout:
        """Return the layout of a proof of `images` images; InputError if there are too many."""
        layout = ProofLayout(self.widths, self.table_bits, images)
        if not layout.fits:
            raise InputError(
                f"{images} images at a time are too many for this perceptron: more than "
                f"2^{MAX_VARIABLES} numbers would be committed to; take fewer"
            )
        return layout

    @property
    def weights_statement(self) -> Lookup:
        """The statement that `weights_proof` proves."""
        return Lookup(self.field, 1, self.layout(1).log_weights, WEIGHTS)

    @cached_property
    def weights(self) -> LigeroCommitment:
        """The commitment to the weights; raises the errors of `check_weights`."""
        try:
            # `check_weights` has checked the bits.
            proven, *_ = verify_committed(
                self.weights_statement, self.weights_proof, scheme=SCHEME, allow_bits=0
            )
        except InputError as error:
            raise moved(error, section="weights_proof") from None
        assert isinstance(proven, LigeroCommitment)
        if proven.root != self.root:
            raise VerificationError("the proof of the weights does not match the key's weights")
        return proven

    def check_weights(self, *, allow_bits: int = MIN_BITS) -> None:
        """Verify that the committed weights have eight bits; `verify` does so once per key.

        VerificationError unless `weights_proof` proves it. InputError if that is malformed, and if
        a proof of one image has fewer bits than `allow_bits`.
        """
        self.check_bits(1, allow_bits)
        # The property verifies the proof.
        _ = self.weights

    def check_bits(self, images: int, allow_bits: int) -> None:
        """Raise InputError if a proof of `images` images has less soundness than `allow_bits`."""
        what = f"an inference of {images} images by this key, over {self.field.name},"
        check_bits(what, error_terms(self, images), allow_bits)

    @property
    def digest(self) -> bytes:
        """SHA3-256 of the key without `weights_proof`."""
        numbers = (*self.widths, self.table_bits)
        parts = [" ".join(map(str, row)) for row in (numbers, *self.biases, *self.multipliers)]
        if self.field != FIELDS[0]:
            parts.append(self.field.name)
        return hashlib.sha3_256(self.root + "\n".join(parts).encode()).digest()


def protocol_of(field: FieldSpec) -> str:
    """Return the name of the protocol with challenges of a field."""
    return PROTOCOL if field == FIELDS[0] else f"{PROTOCOL} {field.name}"


def moved(
    error: InputError, *, offset: int = 0, section: str | None = None, path: str | None = None
) -> InputError:
    """Return an error about a part, with its section and path, and its offset moved by `offset`."""
    if error.offset is None:
        return error if path is None else InputError(str(error), path=path, section=section)
    message = str(error).removeprefix(f"offset {error.offset}: ")
    return InputError(message, path=path, section=section, offset=offset + error.offset)


def begin(key: VerifyingKey, images: Numbers, logits: Numbers) -> Transcript:
    """Begin the transcript, with the key, the images and the logits absorbed."""
    transcript = Transcript()
    transcript.begin(protocol_of(key.field))
    transcript.absorb(Label.PARAMETERS, f"{SCHEME.name} {SCHEME.parameters()}".encode())
    transcript.absorb(Label.CIRCUIT, key.digest)
    transcript.absorb(Label.INSTANCES, str(len(images)).encode())
    for numbers in (images, logits):
        data = np.ascontiguousarray(numbers, "<i8").tobytes()
        transcript.absorb(Label.PUBLIC_INPUT, hashlib.sha3_256(data).digest())
    return transcript


def check_public(key: VerifyingKey, images: object, logits: object) -> tuple[Numbers, Numbers]:
    """Return images and logits as int64; InputError if they do not fit the key."""
    values = check_images(images, key.widths[0])
    return values, check_logits(key, logits, len(values))


def check_logits(key: VerifyingKey, logits: object, images: int | None = None) -> Numbers:
    """Return logits as int64; InputError if they do not fit the key, or the number of images."""
    array = plain_array("the logits", logits)
    shown_rows = "images" if images is None else images
    if (
        array.dtype.kind not in "iu"
        or array.ndim != 2
        or not len(array)
        or array.shape != (len(array) if images is None else images, key.widths[-1])
    ):
        raise InputError(
            f"the logits must be integers of shape ({shown_rows}, {key.widths[-1]}), not "
            f"{array.dtype} of {array.shape}"
        )
    if array.dtype == np.uint64 and (array >= 1 << 31).any():
        raise InputError("a logit must be below 2^31")
    values = array.astype(np.int64)
    # np.abs of -2^63 is -2^63.
    if (np.abs(values) >= 1 << 31).any() or (values == -(1 << 63)).any():
        raise InputError("a logit must be below 2^31 in absolute value")
    return values


def pairs_statement(layout: ProofLayout, field: FieldSpec) -> Lookup:
    """Return the statement that each rescaled sum and its activation are in the table of pairs."""
    table = Table(layout.table_bits, 2)
    return Lookup(field, layout.hidden, layout.log_activations, table)


def limbs_statement(layout: ProofLayout, field: FieldSpec) -> Lookup:
    """Return the statement that each limb of a remainder is in the range of `LIMBS`."""
    return Lookup(field, 2 * layout.hidden, layout.log_activations, LIMBS)


def error_terms(key: VerifyingKey, images: int) -> dict[str, Fraction]:
    """Return the probability that wrong logits are accepted, by the failing step."""
    return terms_of(key.layout(whole_number("the images", images, 1)), key.field)


def field_for(widths: tuple[int, ...], table_bits: int) -> FieldSpec:
    """Return the field of challenges of a new key."""
    layout = ProofLayout(widths, table_bits, MANY_IMAGES)
    while layout.images > 1 and not layout.fits:
        layout = ProofLayout(widths, table_bits, layout.images // 2)
    sufficient_fields = (f for f in FIELDS if bits_of(terms_of(layout, f).values()) >= MIN_BITS)
    return next(sufficient_fields, FIELDS[-1])


def terms_of(layout: ProofLayout, field: FieldSpec) -> dict[str, Fraction]:
    """Return the error terms of proofs of these sizes with challenges of a field."""
    challenge_error = most_likely(field)
    layers = range(layout.hidden + 1)
    rounds = 2 * sum(layout.log_columns(each) for each in layers)
    rounds += 3 * sum(layout.log_rows(each) for each in layers[:-1])
    points = layout.log_activations + layout.log_images + layout.log_rows(layout.hidden)
    # The claims of `ProtocolRun`: four points of lookups, the point of the hidden layers, and the
    # inputs of each layer after the first; and the weights of each layer.
    column_claims, weight_claims = layout.hidden + 5, layout.hidden + 1
    column_coordinates = column_claims * layout.log_blocks
    probabilities = {
        "rounds of sumchecks": rounds * challenge_error,
        "points of activations and logits": points * challenge_error,
        "columns combined": column_coordinates * challenge_error,
        "the hash": Fraction(1, 1 << Hash.SHA3_256.collision_bits),
    }
    lookups = {
        "pairs": pairs_statement(layout, field),
        "limbs": limbs_statement(layout, field),
        "weights": Lookup(field, 1, layout.log_weights, WEIGHTS),
    }
    for name, statement in lookups.items():
        probabilities[f"lookups of {name}"] = sum(
            lookup_error_terms(statement).values(), Fraction(0)
        )
    openings = {
        "activations": (layout.log_block + layout.log_blocks, -(-column_claims // MAX_CLAIMS)),
        # One more opening is in `weights_proof`.
        "weights": (layout.log_weights, -(-weight_claims // MAX_CLAIMS) + 1),
        "counts of weights": (WEIGHTS.log2_size, 1),
    }
    for name, (size, count) in openings.items():
        terms = SCHEME.error_terms(field, size).values()
        probabilities[f"openings of {name}"] = count * sum(terms, Fraction(0))
    return probabilities
