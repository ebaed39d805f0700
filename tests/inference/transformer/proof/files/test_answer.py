"""Files of proven answers and of tokens: round trips, hostile bytes, and what a proof binds."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError, MismatchError, OutputError, VerificationError
from quod.frozen import replace
from quod.inference.transformer.proof import Answer, Key, Statement, read_answer, write_answer
from quod.inference.transformer.proof.files.answer import answer_writer, parse_answer
from quod.inference.transformer.proof.files.describe import describe_file
from quod.inference.transformer.proof.files.tokens import parse_tokens, tokens_to_json
from tests.formats.tiny import container, refused, replaced, split


def parse(data: bytes) -> Answer:
    return parse_answer(memoryview(data), "answer.qtip")


@pytest.fixture(scope="module")
def answer_bytes(answer_path: Path) -> bytes:
    return answer_path.read_bytes()


def test_answers_round_trip(key: Key, answer: Answer, answer_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.qtip"
    write_answer(path, key, answer.statement, answer.proof)
    assert path.read_bytes() == answer_path.read_bytes()
    read = read_answer(path)
    assert (read.key, read.statement, read.proof) == (key.digest, answer.statement, answer.proof)
    assert path.read_bytes()[read.offset :] == read.proof


def test_the_bytes_of_an_answer(key: Key, answer: Answer, answer_bytes: bytes) -> None:
    kind, version, sections = split(answer_bytes)
    tokens = answer.statement.tokens
    assert (kind, version) == (b"qtip", 1)
    assert sections == [
        (1, key.digest + struct.pack("<II", len(tokens), answer.statement.prompt)),
        (2, struct.pack(f"<{len(tokens)}I", *tokens)),
        (3, answer.proof),
    ]


def test_damaged_files_are_refused(answer_bytes: bytes, answer: Answer) -> None:
    """All bytes before the proof; a verifier checks the digest and the tokens."""
    generator = random.Random(5)
    digest = range(24, 24 + 32)
    start = digest.stop + 8 + 12
    tokens = range(start, start + 4 * len(answer.statement.tokens))
    assert answer.offset == tokens.stop + 12
    for place in range(answer.offset):
        wrong = bytearray(answer_bytes)
        wrong[place] ^= 1 << generator.randrange(8)
        if place in digest or place in tokens:
            with contextlib.suppress(InputError):  # a token of 2^31 or more
                other = parse(bytes(wrong))
                assert (other.key, other.statement) != (answer.key, answer.statement)
        elif place != digest.stop + 4:  # the tokens of the prompt, which may be fewer
            with pytest.raises(InputError, match=r"answer\.qtip"):
                parse(bytes(wrong))
    for end in (*range(answer.offset), len(answer_bytes) - 1):
        with pytest.raises(InputError, match=r"answer\.qtip"):
            parse(answer_bytes[:end])
    with pytest.raises(InputError, match="1 bytes after its last section"):
        parse(answer_bytes + b"\0")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({1: bytes(40)}, "0 tokens, 0 of them of the prompt, are no prompt and answer"),
        ({1: bytes(32) + struct.pack("<II", 3, 3)}, "3 tokens, 3 of them of the prompt"),
        ({1: bytes(32) + struct.pack("<II", 3, 0)}, "3 tokens, 0 of them of the prompt"),
        ({1: bytes(32) + struct.pack("<II", 1 << 21, 1)}, "or too many"),
        ({1: bytes(41)}, "1 bytes more than the header"),
        ({1: bytes(39)}, "the tokens of the prompt needs 4 bytes and 3 are left"),
        ({2: bytes(3)}, "a token of each needs 28 bytes and 3 are left"),
        ({2: b"\xff" * 4 * 7}, "a token is 4294967295, and must be from 0 to 2147483647"),
        ({3: None}, "section 3 (proof): is missing"),
        ({4: b""}, "section 4"),
    ],
)
def test_sections_that_are_refused(
    answer_bytes: bytes, answer: Answer, changes: dict[int, bytes | None], said: str
) -> None:
    assert len(answer.statement.tokens) == 7
    with pytest.raises(InputError) as error:
        parse(replaced(answer_bytes, changes))
    refused(error, "answer.qtip", said)


def test_sections_have_one_order(answer_bytes: bytes) -> None:
    kind, version, sections = split(answer_bytes)
    with pytest.raises(InputError, match="in the order of their numbers"):
        parse(container(kind, version, sections[::-1]))


def test_another_key_is_a_mismatch(key: Key, answer: Answer) -> None:
    other = replace(key, roots={**key.roots, "layers": bytes(32)})
    with pytest.raises(MismatchError, match="the proof was made with another key"):
        answer.verify(other)
    with pytest.raises(VerificationError, match=r"answer\.qtip: "):
        replace(answer, key=other.digest).verify(other)


def test_tokens_that_a_key_does_not_have(key: Key, answer: Answer) -> None:
    wrong = replace(answer, statement=Statement((1, key.vocabulary), 1))
    with pytest.raises(InputError, match=r"section 2 \(tokens\): token \d+ is not in the voc"):
        wrong.check(key)
    with pytest.raises(InputError, match="section 2"):
        replace(answer, statement=Statement((1,) * 300, 1)).verify(key)


def test_other_tokens_are_not_proved(key: Key, answer: Answer) -> None:
    tokens, prompt = answer.statement.tokens, answer.statement.prompt
    for statement in (
        Statement((*tokens[:-1], tokens[-1] ^ 1), prompt),
        Statement((tokens[0] ^ 1, *tokens[1:]), prompt),
        Statement(tokens, prompt - 1),
    ):
        with pytest.raises((VerificationError, InputError), match=r"answer\.qtip"):
            replace(answer, statement=statement).verify(key)


def test_a_damaged_proof_is_refused_at_its_offset(key: Key, answer: Answer) -> None:
    for proof, message in (
        (answer.proof[:2000], "ends within the part that begins here"),
        (answer.proof[:36], "the proof ends before its last part"),
        (b"", "the proof ends before its last part"),
    ):
        with pytest.raises(InputError, match=message) as error:
            replace(answer, proof=proof).verify(key)
        assert error.value.section == "3 (proof)"
        assert error.value.offset is not None
        assert error.value.offset >= answer.offset
    generator = random.Random(11)
    for _ in range(2):
        wrong = bytearray(answer.proof)
        wrong[generator.randrange(len(wrong))] ^= 1 << generator.randrange(8)
        with pytest.raises((InputError, VerificationError), match=r"answer\.qtip"):
            replace(answer, proof=bytes(wrong)).verify(key)


def test_answers_that_are_not_written(key: Key, answer: Answer, tmp_path: Path) -> None:
    wrong: Any
    for wrong in ((None, answer.statement, b""), (key, None, b""), (key, answer.statement, "")):
        with pytest.raises(InputError):
            answer_writer(*wrong)
    with pytest.raises(InputError, match="is not in the vocabulary"):
        write_answer(tmp_path / "a", key, Statement((1, key.vocabulary), 1), b"")
    with pytest.raises(OutputError):
        write_answer(tmp_path / "none" / "a", key, answer.statement, b"")
    assert not list(tmp_path.iterdir())


def test_an_answer_is_described(key: Key, answer: Answer, answer_bytes: bytes) -> None:
    description = describe_file(memoryview(answer_bytes), "answer.qtip")
    assert description is not None
    assert description["key"] == key.digest.hex()
    assert (description["prompt_tokens"], description["answer_tokens"]) == (2, 5)
    assert description["proof_bytes"] == len(answer.proof)


def test_tokens_as_json(answer: Answer) -> None:
    text = tokens_to_json(answer.statement)
    assert json.loads(text) == {"prompt": 2, "tokens": [*answer.statement.tokens]}
    assert parse_tokens(text, "t.json") == answer.statement


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is no object with a prompt and tokens alone"),
        ('{"tokens": [1, 2]}', "is no object with"),
        ('{"prompt": 1, "tokens": [1, 2], "more": 0}', "is no object with"),
        ('{"prompt": 1, "tokens": "12"}', "section tokens: must be a list, not a string"),
        ('{"prompt": 1, "tokens": [1]}', "a sequence of at least 2"),
        ('{"prompt": 2, "tokens": [1, 2]}', "the tokens of the prompt must be"),
        ('{"prompt": true, "tokens": [1, 2]}', "the tokens of the prompt must be"),
        ('{"prompt": 1, "tokens": [1, -2]}', "a token must be a whole number from 0"),
        ('{"prompt": 1, "tokens": [1, 2147483648]}', "a token must be"),
        ('{"prompt": 1, "tokens": [1, 2.0]}', "offset 28: holds a fraction"),
        ("{", "is not JSON"),
    ],
)
def test_tokens_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_tokens(text.encode(), "t.json")
    refused(error, "t.json", said)
