"""Proven inferences as files: containers of the iden3 tools of the kind `qinp`.

Version 1 has three sections, all integers little-endian. The first has the digest of the key in 32
bytes, the u64 number of images and the u32 number of logits of each. The second has the logits as
i32, a row per image; the third the bytes of the proof. The file contains neither the images nor the
key: a verifier has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from quod.errors import InputError, MismatchError, VerificationError
from quod.formats.iden3 import Buffer, Iden3File, iden3_writer, little_u32
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, check_length, read_parsed
from quod.frozen import frozen
from quod.inference.perceptron import MAX_WIDTH, Numbers, check_images
from quod.inference.statement import VerifyingKey, check_logits, moved
from quod.inference.verifier import verify
from quod.security import MIN_BITS
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.validation import exact_bytes, whole_number

KIND = "qinp"
VERSION = 1

_DIGEST_BYTES = 32
_PROOF = "3 (proof)"
_MAX_IMAGES = 1 << MAX_VARIABLES
_MAX_BYTES = 1 << 30


@frozen(eq=False)
class ProofFile:
    """The unverified content of a file.

    logits: int64, a row per image.
    proof: the bytes of the proof.
    key: the digest of the key that the file claims.
    offset: the offset of the proof in the file.
    """

    path: str
    key: bytes
    logits: Numbers
    proof: bytes
    offset: int = 0

    def check(self, key: VerifyingKey, images: int) -> None:
        """Raise MismatchError for another key, or another number of images."""
        images = whole_number("the images", images, 1)
        if self.key != key.digest:
            raise MismatchError("the proof was made with another key", path=self.path)
        shape = (images, key.widths[-1])
        if self.logits.shape != shape:
            raise MismatchError(
                f"the proof is for logits of shape {self.logits.shape}, and {shape} are to be "
                "verified",
                path=self.path,
            )

    def verify(self, key: VerifyingKey, images: object, *, allow_bits: int = MIN_BITS) -> None:
        """Verify the file's logits by `check` and `quod.inference.verify`.

        Raises their errors; errors about the proof have the file's name and offset.
        """
        values = check_images(images, key.widths[0])
        self.check(key, len(values))
        key.check_weights(allow_bits=allow_bits)
        try:
            verify(key, values, self.logits, self.proof, allow_bits=allow_bits)
        except InputError as error:
            located_error = moved(error, offset=self.offset, section=_PROOF, path=self.path)
            raise located_error from None
        except VerificationError as error:
            raise VerificationError(f"{self.path}: {error}") from None


def write_proof(path: Path, key: VerifyingKey, logits: object, proof: bytes) -> None:
    """Write logits and their proof atomically.

    InputError for logits that do not fit the key, and `OutputError`.
    """
    write_atomically(path, proof_writer(key, logits, proof))


def proof_writer(key: VerifyingKey, logits: object, proof: bytes) -> Callable[[BinaryIO], None]:
    """Return a function that writes logits and their proof to an open file."""
    checked_logits = check_logits(key, logits)
    data = exact_bytes("the proof", proof)
    shape = len(checked_logits).to_bytes(8, "little") + little_u32(checked_logits.shape[1])
    parts: list[list[Buffer]] = [[key.digest, shape], [checked_logits.astype("<i4")], [data]]
    return iden3_writer(KIND, VERSION, enumerate(parts, 1))


def read_proof(path: Path) -> ProofFile:
    """Read logits and their proof; InputError with section and offset for a malformed file."""
    return read_parsed(path, _header, parse_proof)


def parse_proof(data: memoryview, name: str) -> ProofFile:
    """Parse a file as `read_proof`, from bytes; `name` is their source in errors."""
    file, digest, images, outputs = _header(data, name)
    section = file.section(2, "logits")
    start = section.offset
    words = section.words(images, outputs, what="the logits").view("<i4").astype(np.int64)
    section.finish()
    if (too_small := np.flatnonzero(words == -(1 << 31))).size:
        section.fail("a logit is not above -2^31", start + 4 * int(too_small[0]))
    section = file.section(3, "proof")
    start = section.offset
    proof = section.remainder("the proof")
    return ProofFile(name, digest, words, bytes(proof), start)


def _header(data: Bytes, name: str) -> tuple[Iden3File, bytes, int, int]:
    """Return the container, the key's digest, the number of images, and of logits per image."""
    file = Iden3File.parse(data, name, KIND, VERSION)
    check_length(len(data), _MAX_BYTES, "a proof of inferences", name)
    file.check_sections(1, 2, 3)
    header = file.section(1, "header")
    digest = bytes(header.take(_DIGEST_BYTES, "the key's digest"))
    shape_start = header.offset
    images = header.u64("the number of images")
    outputs = header.u32("the number of logits")
    header.finish()
    if not 1 <= images <= _MAX_IMAGES or not 1 <= outputs <= MAX_WIDTH:
        header.fail(
            f"{outputs} logits of {images} images are none, or too many; the file is damaged, "
            "copy it again",
            shape_start,
        )
    return file, digest, images, outputs
