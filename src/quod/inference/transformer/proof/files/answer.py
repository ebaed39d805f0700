"""Answers with their proofs as files: containers of the iden3 tools of the kind `qtip`.

Version 1 has three sections in this order, all integers little-endian. The first has the digest of
the key in 32 bytes, the u32 number of tokens and the u32 number of tokens of the prompt. The second
has the tokens as u32, the third the bytes of the proof. A verifier has its own key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from quod.errors import InputError, MismatchError, VerificationError
from quod.formats.iden3 import Iden3File, iden3_writer, little_u32
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, check_length, read_parsed
from quod.frozen import frozen
from quod.inference.statement import moved
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.statement import MAX_LOG_POSITIONS, Statement
from quod.inference.transformer.proof.verifier import verify
from quod.security import MIN_BITS
from quod.validation import exact_bytes, file_path, instance

KIND = "qtip"
VERSION = 1

_DIGEST_BYTES = 32
_SECTIONS = (1, 2, 3)
_TOKENS, _PROOF = "2 (tokens)", "3 (proof)"
_MAX_TOKENS = (1 << MAX_LOG_POSITIONS) + 1
"""The positions of a proof, and the token after the last one."""
_MAX_BYTES = 1 << 28


@frozen(eq=False)
class Answer:
    """The unverified content of a file.

    path: the file, for errors.
    key: the digest of the key that the file claims.
    statement: the tokens of prompt and answer.
    proof: the bytes of the proof.
    offset: the offset of the proof in the file.
    """

    path: str
    key: bytes
    statement: Statement
    proof: bytes
    offset: int = 0

    def check(self, key: Key) -> None:
        """Raise MismatchError for another key, and InputError for tokens that its model lacks."""
        instance("key", key, Key, "`read_key` reads one")
        if self.key != key.digest:
            raise MismatchError(
                f"the proof was made with another key, {self.key.hex()[:16]}...; this key is "
                f"{key.digest.hex()[:16]}...",
                path=self.path,
            )
        try:
            self.statement.check(key)
        except InputError as error:
            raise InputError(error.message, path=self.path, section=_TOKENS) from None

    def verify(self, key: Key, *, allow_bits: int = MIN_BITS) -> None:
        """Verify that the model of a key chose the tokens after the prompt.

        Raises the errors of `check`, VerificationError if the proof does not hold, and InputError
        for malformed bytes, with their offset in the file, and for fewer bits than `allow_bits`.
        """
        self.check(key)
        try:
            verify(key, self.statement, self.proof, allow_bits=allow_bits)
        except InputError as error:
            located_error = moved(error, offset=self.offset, section=_PROOF, path=self.path)
            raise located_error from None
        except VerificationError as error:
            raise VerificationError(f"{self.path}: {error}") from None


def write_answer(path: Path, key: Key, statement: Statement, proof: bytes) -> None:
    """Write an answer and its proof atomically.

    InputError for tokens that the key's model does not have, and `OutputError`.
    """
    write_atomically(file_path(path), answer_writer(key, statement, proof))


def answer_writer(key: Key, statement: Statement, proof: bytes) -> Callable[[BinaryIO], None]:
    """Return a function that writes an answer and its proof to an open file."""
    instance("key", key, Key, "`Prover.key` is one")
    instance("statement", statement, Statement, "make one from the tokens")
    statement.check(key)
    data = exact_bytes("the proof", proof)
    counts = little_u32(len(statement.tokens)) + little_u32(statement.prompt)
    tokens = np.array(statement.tokens, "<u4")
    return iden3_writer(KIND, VERSION, enumerate([[key.digest, counts], [tokens], [data]], 1))


def read_answer(path: Path) -> Answer:
    """Read an answer and its proof; InputError with section and offset for a malformed file."""
    return read_parsed(path, _header, parse_answer)


def _header(data: Bytes, name: str) -> tuple[Iden3File, bytes, int, int]:
    """Return the container, the key's digest, the number of tokens, and those of the prompt."""
    file = Iden3File.parse(data, name, KIND, VERSION)
    check_length(len(data), _MAX_BYTES, "a proven answer", name)
    file.check_sections(*_SECTIONS, in_order=True)
    header = file.section(1, "header")
    digest = bytes(header.take(_DIGEST_BYTES, "the key's digest"))
    start = header.offset
    count, prompt = header.u32("the number of tokens"), header.u32("the tokens of the prompt")
    header.finish()
    if not 1 <= prompt < count <= _MAX_TOKENS:
        header.fail(
            f"{count} tokens, {prompt} of them of the prompt, are no prompt and answer, or too "
            "many; the file is damaged, copy it again",
            start,
        )
    return file, digest, count, prompt


def parse_answer(data: memoryview, name: str) -> Answer:
    """Parse an answer as `read_answer` does, from bytes; `name` is their source in errors."""
    file, digest, count, prompt = _header(data, name)
    section = file.section(2, "tokens")
    tokens = tuple(section.integers("<u4", count, 0, (1 << 31) - 1, "a token").tolist())
    section.finish()
    proof = file.section(3, "proof")
    offset = proof.offset
    return Answer(
        name, digest, Statement(tokens, prompt), bytes(proof.remainder("the proof")), offset
    )
