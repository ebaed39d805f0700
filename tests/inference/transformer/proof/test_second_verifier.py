"""The second verifier accepts what `verify` accepts, and refuses all that is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError, QuodError, VerificationError
from quod.frozen import replace
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.prover import Prover
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import P
from quod.inference.transformer.proof.verifier import verify
from quod.transcript import Label, Transcript
from tests.inference.transformer.proof.conftest import Answer, text_of, tiny_program
from tests.inference.transformer.proof.second.verifier import SecondVerifier

REFUSALS = (VerificationError, InputError)
MUTATIONS = int(os.environ.get("QUOD_PROOF_MUTATIONS", "160"))
"""The number of changed proofs for the second verifier."""


@pytest.fixture(scope="module")
def second(answer: Answer) -> SecondVerifier:
    """The second verifier, which has accepted the honest proof."""
    verifier = SecondVerifier(answer.prover.key, answer.statement)
    verifier.verify(answer.proof)
    return verifier


def parts_of(proof: bytes) -> list[bytes]:
    parts = []
    while proof:
        length = int.from_bytes(proof[:4], "little")
        parts.append(proof[4 : 4 + length])
        proof = proof[4 + length :]
    return parts


def joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def mutations(proof: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield changed proofs without end; each part is changed equally often."""
    rng, parts = np.random.default_rng(seed), parts_of(proof)
    while True:
        for index, part in enumerate(parts):
            other = list(parts)
            kind = int(rng.integers(8))
            at = int(rng.integers(len(part)))
            word = at & -8
            if kind <= 1:  # any bit of any byte
                changed = bytearray(part)
                changed[at] ^= 1 << int(rng.integers(8))
                other[index] = bytes(changed)
            elif kind <= 3:  # another element, near the old one or a random one
                old = int.from_bytes(part[word : word + 8], "little")
                near = (old + int(rng.choice([1, -1]))) % P
                value = near if kind == 2 else int(rng.integers(P, dtype=np.uint64))
                other[index] = part[:word] + value.to_bytes(8, "little") + part[word + 8 :]
            elif kind == 4:  # two elements of a part change places
                second = int(rng.integers(len(part))) & -8
                words = [part[i : i + 8] for i in range(0, len(part), 8)]
                words[word // 8], words[second // 8] = words[second // 8], words[word // 8]
                other[index] = b"".join(words)
            elif kind == 5:  # two parts change places
                second = int(rng.integers(len(parts)))
                other[index], other[second] = other[second], other[index]
            elif kind == 6:  # a part is missing, or is there twice
                other[index : index + 1] = [part] * int(rng.choice([0, 2]))
            else:  # a part is shorter, or longer
                other[index] = part[:word] if rng.integers(2) else part + bytes(8)
            changed_proof = joined(other)
            if changed_proof != proof:
                yield f"part {index}, kind {kind}, byte {at}", changed_proof


def refuses(check: Callable[[], None]) -> bool:
    try:
        check()
    except REFUSALS:
        return True
    return False


def test_the_second_verifier_refuses_every_changed_proof(
    answer: Answer, second: SecondVerifier
) -> None:
    for _, (what, proof) in zip(range(MUTATIONS), mutations(answer.proof, 1), strict=False):
        assert refuses(lambda proof=proof: second.verify(proof)), what  # type: ignore[misc]


def test_the_verifier_refuses_every_changed_proof(answer: Answer) -> None:
    """Fewer, as each of them takes seconds if it is refused late."""
    key, statement = answer.prover.key, answer.statement
    early = (
        (what, proof) for what, proof in mutations(answer.proof, 2)
        if int(what.split()[1].strip(",")) < 2
    )  # fmt: skip
    late = (mutation for mutation in mutations(answer.proof, 3))
    for source, count in ((early, MUTATIONS // 4), (late, len(parts_of(answer.proof)) // 4)):
        for _, (what, proof) in zip(range(count), source, strict=False):
            assert refuses(lambda proof=proof: verify(key, statement, proof)), what  # type: ignore[misc]


def test_both_refuse_bytes_around_the_proof(answer: Answer, second: SecondVerifier) -> None:
    key, statement, proof = answer.prover.key, answer.statement, answer.proof
    for changed in (b"", proof[:3], proof[:-1], bytes(4) + proof, b"\xff" * 4 + proof):
        assert refuses(lambda changed=changed: verify(key, statement, changed))  # type: ignore[misc]
        assert refuses(lambda changed=changed: second.verify(changed))  # type: ignore[misc]
    for behind in (b"\0", bytes(4)):
        assert refuses(lambda behind=behind: second.verify(proof + behind))  # type: ignore[misc]


def other_statements(statement: Statement) -> Iterator[Statement]:
    tokens, prompt = statement.tokens, statement.prompt
    for index, token in enumerate(tokens):
        yield Statement((*tokens[:index], token ^ 1, *tokens[index + 1 :]), prompt)
    yield Statement(tokens, prompt - 1)
    yield Statement(tokens, prompt + 1)
    yield Statement(tokens[:-1], prompt)
    yield Statement((*tokens, tokens[-1]), prompt)
    yield Statement(tokens[1:], prompt - 1)


def test_both_refuse_other_statements(answer: Answer) -> None:
    key = answer.prover.key
    for index, statement in enumerate(other_statements(answer.statement)):
        assert refuses(lambda s=statement: verify(key, s, answer.proof)), statement  # type: ignore[misc]
        if index % 3 == 0:  # it computes its tables again for each of them
            second = SecondVerifier(key, statement)
            assert refuses(lambda v=second: v.verify(answer.proof)), statement  # type: ignore[misc]


def other_value(name: str, value: Any) -> Any:
    """Return another value of a field of a key."""
    if name == "model" or isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if name == "roots":
        return {**value, "layers": bytes([value["layers"][0] ^ 1]) + value["layers"][1:]}
    if name == "is_tied":
        return not value
    if name == "rope":
        return (value[0] * 2, value[1])
    if name == "gains":
        changed = value.copy()
        changed[-1, -1] += 1
        return changed
    if name == "epsilons":
        return (*value[:-1], value[-1] + 1)
    if name == "constants":
        return (*value[:-1], replace(value[-1], multiplier=value[-1].multiplier + 1))
    if name == "roundings":
        up = value["up"]
        shifts = (*up.shifts[:-1], up.shifts[-1] - 1)
        return {**value, "up": replace(up, shifts=shifts)}
    if name == "heads":
        return value * 2
    return value + 1


def test_both_refuse_other_keys(answer: Answer) -> None:
    """Each field of the key is changed; fields that contradict each other raise other errors."""
    key, statement = answer.prover.key, answer.statement
    for name in Key.__annotations__:
        other = replace(key, **{name: other_value(name, getattr(key, name))})
        assert other.digest != key.digest, name
        for check in (
            lambda k=other: verify(k, statement, answer.proof),
            lambda k=other: SecondVerifier(k, statement).verify(answer.proof),
        ):
            with pytest.raises((QuodError, ValueError, IndexError, KeyError, AssertionError)):
                check()


@pytest.mark.thorough
def test_the_equations_depend_on_each_constant(answer: Answer) -> None:
    """Keys with another constant, but the same digest, so that all challenges agree."""
    key, statement = answer.prover.key, answer.statement
    for name in ("gains", "epsilons", "constants", "roundings", "rope", "residual_limit", "roots"):
        other = replace(key, **{name: other_value(name, getattr(key, name))})
        other.__dict__["digest"] = key.digest
        assert refuses(lambda k=other: verify(k, statement, answer.proof)), name  # type: ignore[misc]
        second = SecondVerifier(other, statement)
        assert refuses(lambda v=second: v.verify(answer.proof)), name  # type: ignore[misc]


def test_all_messages_are_absorbed(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of the proof is in the transcript, in its order, so challenges depend on it."""
    messages, claims = bytearray(), []
    absorb = Transcript.absorb

    def recording(self: Transcript, label: Label, message: bytes, *arguments: Any) -> None:
        if label is Label.CLAIM:
            claims.append(message)
        elif label in (Label.ROUND, Label.VALUES, Label.COMMITMENT, Label.OPENING):
            messages.extend(message)
        absorb(self, label, message, *arguments)

    monkeypatch.setattr(Transcript, "absorb", recording)
    verify(answer.prover.key, answer.statement, answer.proof)
    parts, end = parts_of(answer.proof), 0
    for index, part in enumerate(parts):
        if messages.startswith(part, end):
            end += len(part)
        elif len(part) == 16:  # a sum is absorbed as the claim of its sumcheck
            assert part in claims, index
        else:  # an opening: the leaves of its columns are absorbed instead of them
            assert index >= len(parts) - 5, index
            end = messages.index(parts[index + 1], end) if index + 1 < len(parts) else len(messages)
    assert end == len(messages)


@pytest.mark.thorough
@pytest.mark.parametrize(("sizes", "prompt", "count"), [
    ({"width": 96, "hidden": 160, "heads": 6, "kv_heads": 2, "tied": False}, [5], 1),
    (
        {"width": 96, "hidden": 96, "heads": 3, "kv_heads": 3, "family": "qwen2"},
        [5, 9, 3, 7, 11, 200, 40, 41], 2,
    ),
    ({"width": 64, "hidden": 32, "heads": 1, "kv_heads": 1, "kinds": ("F16", "F32")}, [7, 7, 7], 9),
])  # fmt: skip
def test_other_architectures(
    tmp_path: Path, sizes: dict[str, Any], prompt: list[int], count: int
) -> None:
    """Numbers of heads and widths that are no powers of two, biases, an untied head, one choice."""
    program, digest = tiny_program(tmp_path, **sizes)
    prover = Prover("cpu", program, digest)
    statement = Statement(text_of(program, prompt, count), len(prompt))
    SecondVerifier(prover.key, statement).verify(prover.prove(statement))
