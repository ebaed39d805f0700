"""Proofs of a small model: what they show, on which devices, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.device.discovery import open_device
from quod.errors import DeviceError, InputError, VerificationError
from quod.frozen import replace
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.prover import Prover
from quod.inference.transformer.proof.soundness import MAX_CLAIMS, MAX_SUMCHECKS, error_terms
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.verifier import verify
from quod.inference.transformer.proof.witness import Witness
from quod.inference.transformer.reference import Reference, Trace
from quod.security import bits_of
from tests.inference.transformer.proof.conftest import Answer, text_of, tiny_program
from tests.support.devices import present
from tests.support.thorough import one_and_others


def test_a_proof_verifies(answer: Answer) -> None:
    verify(answer.prover.key, answer.statement, answer.proof)
    assert bits_of(error_terms(answer.prover.key, answer.statement).values()) >= 100


@pytest.mark.parametrize(
    "name", one_and_others(present("cuda", "webgpu:portable"), present("cuda"))
)
def test_devices_make_the_same_proof(answer: Answer, name: str) -> None:
    prover = Prover(name, answer.program, answer.prover.key.model)
    assert prover.key.digest == answer.prover.key.digest
    assert prover.prove(answer.statement) == answer.proof


def test_the_values_are_those_of_the_reference(answer: Answer) -> None:
    witness = Witness(answer.prover.key, answer.program, answer.statement)
    trace = Trace({}, {})
    Reference(answer.program).logits(answer.statement.inputs, trace=trace)
    layers = range(answer.prover.key.layers)

    def traced(name: str) -> NDArray[np.int64]:
        return np.concatenate([trace.values[f"{layer}.{name}"].T for layer in layers])

    for name, reference in (
        ("query", "query"), ("rotated_query", "queries"), ("rotated_key", "keys"),
        ("mixed", "mixed"), ("hidden", "hidden"), ("activated", "activated"),
    ):  # fmt: skip
        assert np.array_equal(witness.arrays[name], traced(reference)), name
    states = [trace.values["embedding"].T]
    for layer in layers:
        states += [trace.values[f"{layer}.{name}"].T for name in ("attention", "feed_forward")]
    assert np.array_equal(witness.arrays["residual"], np.concatenate(states))
    shapes = Columns(answer.prover.key, answer.statement).shapes
    for name, (rows, log_width) in shapes.items():
        assert witness.arrays[name].shape == (rows, 1 << log_width), name


def test_other_statements_do_not_verify(answer: Answer) -> None:
    key, tokens = answer.prover.key, answer.statement.tokens
    other = [
        Statement((*tokens[:index], tokens[index] ^ 1, *tokens[index + 1 :]), 3)
        for index in range(len(tokens))
    ]
    other += [Statement(tokens, 2), Statement(tokens, 4), Statement(tokens[:-1], 3)]
    for statement in other:
        with pytest.raises((VerificationError, InputError)):
            verify(key, statement, answer.proof)
    for changed in (
        replace(key, residual_limit=key.residual_limit + 1),
        replace(key, gains=key.gains + 1),
        replace(key, roots={name: bytes(32) for name in key.roots}),
        replace(key, context=key.context + 1),
    ):
        with pytest.raises((VerificationError, InputError)):
            verify(changed, answer.statement, answer.proof)


def test_a_proof_of_one_chosen_token(answer: Answer) -> None:
    statement = Statement(answer.statement.tokens[:4], 3)
    proof = answer.prover.prove(statement)
    verify(answer.prover.key, statement, proof)
    with pytest.raises((VerificationError, InputError)):
        verify(answer.prover.key, answer.statement, proof)


def test_a_token_that_the_model_does_not_choose_is_refused(answer: Answer) -> None:
    tokens = list(answer.statement.tokens)
    tokens[5] ^= 1
    with pytest.raises(InputError, match=r"token 5 is \d+, and the model chooses"):
        answer.prover.prove(Statement(tuple(tokens), 3))


def test_statements_are_checked(answer: Answer) -> None:
    key = answer.prover.key
    for tokens, prompt, message in (
        ((1,), 1, "at least 2"), ("12", 1, "sequence"), ((1, 2), 2, "tokens of the prompt"),
        ((1, 2), 0, "tokens of the prompt"), ((1, -2), 1, "a token"), ((1, 2.5), 1, "a token"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            Statement(tokens, prompt)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not in the vocabulary"):
        verify(key, Statement((1, key.vocabulary), 1), b"")
    with pytest.raises(InputError, match="context"):
        verify(key, Statement((1,) * (key.context + 2), 1), b"")
    with pytest.raises(InputError, match=r"shows \d+ bits"):
        verify(key, answer.statement, answer.proof, allow_bits=128)
    with pytest.raises(InputError, match="must be bytes"):
        verify(key, answer.statement, "proof")  # type: ignore[arg-type]


def test_provers_check_their_arguments(answer: Answer) -> None:
    with pytest.raises(InputError, match="the program must be of the type Program, not str"):
        Prover("cpu", "program", bytes(32))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the model's digest must be bytes"):
        Prover("cpu", answer.program, "x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the model's digest must be 32 bytes"):
        Prover("cpu", answer.program, b"x")
    with pytest.raises(InputError, match="the statement must be of the type Statement"):
        answer.prover.prove((1, 2, 3))  # type: ignore[arg-type]


def test_too_little_memory_is_refused_before_work(answer: Answer) -> None:
    key, statement = answer.prover.key, answer.statement
    sizes = [1 << layout.log2_size for layout in key.weights.values()]
    needed = 40 * sum(sizes) + 40 * max(sizes)
    with (
        open_device("cpu", memory_budget=needed - 1) as device,
        pytest.raises(DeviceError, match=r"proofs of the model .*; the budget is"),
    ):
        Prover(device, answer.program, key.model)
    with open_device("cpu", memory_budget=needed) as device:
        prover = Prover(device, answer.program, key.model)
        with pytest.raises(DeviceError, match=r"a proof of 8 tokens .*; the budget is"):
            prover.prove(statement)


def test_damaged_proofs_are_refused(answer: Answer) -> None:
    key, statement, proof = answer.prover.key, answer.statement, answer.proof
    numbers = np.random.default_rng(7)
    damaged = [proof[:-1], proof + b"\0", b"", proof[4:], proof[: len(proof) // 2]]
    for _ in range(5):
        index = int(numbers.integers(0, len(proof)))
        damaged.append(proof[:index] + bytes([proof[index] ^ 1]) + proof[index + 1 :])
    for bytes_of_proof in damaged:
        with pytest.raises((VerificationError, InputError)):
            verify(key, statement, bytes_of_proof)


def test_two_layers_of_grouped_heads_with_own_head(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    program, digest = tiny_program(
        tmp_path_factory.mktemp("two"), width=256, hidden=256, heads=4, kv_heads=2,
        kinds=("Q4_K", "Q6_K"), tied=False,
    )  # fmt: skip
    prover = Prover("cpu", program, digest)
    statement = Statement(text_of(program, [5, 9], 3), 2)
    verify(prover.key, statement, prover.prove(statement))
    assert not prover.key.is_tied


def test_biases_of_queries_keys_and_values(tmp_path_factory: pytest.TempPathFactory) -> None:
    program, digest = tiny_program(
        tmp_path_factory.mktemp("qwen"), width=256, hidden=256, kinds=("Q8_0",), family="qwen2"
    )
    prover = Prover("cpu", program, digest)
    statement = Statement(text_of(program, [5, 9], 2), 2)
    verify(prover.key, statement, prover.prove(statement))
    assert {"query", "key", "value"} <= set(prover.key.constants[0].biases)


def test_the_bounds_of_the_error_terms_hold(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quod.inference.transformer.proof import openings, verifier

    sums, claims = [], []
    counted, combine = verifier._VerifierParty.sum, openings.combine_claims

    def sum_of(*arguments: object) -> object:
        sums.append(arguments)
        return counted(*arguments)  # type: ignore[arg-type]

    def combined(transcript: object, claims_made: list[object]) -> object:
        claims.append(len(claims_made))
        return combine(transcript, claims_made)  # type: ignore[arg-type]

    monkeypatch.setattr(verifier._VerifierParty, "sum", sum_of)
    monkeypatch.setattr(verifier, "combine_claims", combined)
    verify(answer.prover.key, answer.statement, answer.proof)
    assert 0 < len(sums) <= MAX_SUMCHECKS
    assert 0 < max(claims) <= MAX_CLAIMS
