"""Dishonest provers that keep everything else consistent with their lies.

Proofs of inference have been published that left out one of these, and each has a test here or in
test_second_verifier.py: the choice of the token; the row sum of a softmax, or its inverse only
within a tolerance; the sum of squares of a norm; the activation; the upper bits of activations;
remainders without a range; limbs that are not tied to their value; divisions without a remainder;
multiplicities; all layers, heads and positions of a batch; the commitment to all weights;
challenges that depend on all messages; and constants that the prover chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.errors import DeviceError, InputError, VerificationError
from quod.frozen import replace
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.prover import Prover
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import P
from quod.inference.transformer.proof.verifier import verify
from quod.inference.transformer.proof.witness import Witness
from quod.inference.transformer.rounding import Integers, round_shift
from quod.lookup import prover as lookup_prover
from tests.inference.transformer.models import VOCABULARY
from tests.inference.transformer.proof.conftest import Answer, text_of, tiny_program
from tests.inference.transformer.proof.forger import (
    Forgery,
    Lie,
    Values,
    exact_values,
    failing_lookups,
    forged_proof,
)

REFUSALS = (VerificationError, InputError, DeviceError)


def forge(answer: Answer, lies: Mapping[str, Lie], statement: Statement | None = None) -> Forgery:
    return Forgery(answer.prover.key, answer.program, statement or answer.statement, lies)


def failures(answer: Answer, forgery: Values, statement: Statement | None = None) -> dict[str, int]:
    key = answer.prover.key
    statement = statement or answer.statement
    honest = Witness(key, answer.program, answer.statement)
    if statement != answer.statement:
        honest = None  # type: ignore[assignment]
    return failing_lookups(key, Columns(key, statement), forgery, honest)


def refusal(prover: Prover, statement: Statement, forgery: Values, key: Key | None = None) -> str:
    """Make the proof of a forgery and return the error that refuses it."""
    with pytest.raises(REFUSALS) as caught:
        verify(key or prover.key, statement, forged_proof(prover, statement, forgery))
    return str(caught.value)


def at(row: int, column: int, change: int, group: int = 0) -> Lie:
    """Add a number to one entry of a group."""

    def lie(number: int, values: Integers) -> Integers:
        if number == group:
            values[(row, column) if values.ndim > 1 else column] += change
        return values

    return lie


def everywhere(change: Callable[[Integers], Integers]) -> Lie:
    return lambda _, values: change(values)


def test_an_honest_forgery_is_the_witness_and_verifies(answer: Answer) -> None:
    forgery = forge(answer, {})
    witness = Witness(answer.prover.key, answer.program, answer.statement)
    assert forgery.arrays.keys() == witness.arrays.keys()
    assert forgery.sums.keys() == witness.sums.keys()
    for name, values in (*witness.arrays.items(), *witness.sums.items()):
        other = forgery.arrays.get(name, forgery.sums.get(name))
        assert other is not None, name
        assert np.array_equal(values.ravel(), other.ravel()), name
    key = answer.prover.key
    assert failing_lookups(key, Columns(key, answer.statement), forgery) == {}
    proof = forged_proof(answer.prover, answer.statement, forgery)
    assert proof == answer.proof


_FREE = ("largest.high", "largest.low")
"""Arrays in no lookup: sumchecks prove them."""


def test_no_committed_entry_may_change_by_one(answer: Answer) -> None:
    """Everything that the program computes from the changed entry agrees with it."""
    key = answer.prover.key
    shapes = Columns(key, answer.statement).shapes
    rng = np.random.default_rng(4)
    for name, (rows, log_width) in shapes.items():
        for change in (1, -1) if name in _FREE else (int(rng.choice([1, -1])),):
            honest = forge(answer, {}).arrays[name]
            row, column = int(rng.integers(rows)), int(rng.integers(1 << log_width))
            count = rows // _rows_of_group(answer, name)
            lie = at(row % (rows // count), column, change, row // (rows // count))
            forgery = forge(answer, {name: lie})
            assert forgery.arrays[name][row, column] == honest[row, column] + change, name
            wrong = failures(answer, forgery)
            if name in _FREE or (name == "largest" and change == 1):
                continue  # see the tests below
            assert wrong, (name, row, column, change)


def _rows_of_group(answer: Answer, name: str) -> int:
    parts: list[int] = []

    def count(_: int, values: Integers) -> Integers:
        parts.append(len(values) if values.ndim > 1 else 1)
        return values

    forge(answer, {name: count})
    assert len(set(parts)) == 1
    return parts[0]


@pytest.mark.parametrize(("name", "column", "change"), [
    ("largest.low", 1, 1),
    *(
        pytest.param(name, column, change, marks=pytest.mark.thorough)
        for name in _FREE for column in range(2) for change in (1, -1)
    ),
])  # fmt: skip
def test_bits_of_the_largest_score_are_one_hot(
    answer: Answer, name: str, column: int, change: int
) -> None:
    """2, -1, a second 1, or no 1, in the row of query 0, whose key is 0."""
    forgery = forge(answer, {name: at(0, column, change)})
    assert failures(answer, forgery) == {}
    assert refusal(answer.prover, answer.statement, forgery)


def test_each_layer_head_and_position_is_proved(answer: Answer) -> None:
    """Also positions behind the text, which the batch contains."""
    key = answer.prover.key
    size = 1 << answer.statement.log_positions
    for position in range(size):
        for name, groups in (("mixed.quotient", key.layers), ("unit", key.norms),
                             ("weight", key.layers * key.heads)):  # fmt: skip
            for group in range(groups):
                assert failures(answer, forge(answer, {name: at(position, position, 1, group)}))


@pytest.mark.parametrize("kind", [
    "query", "key", "value", "rotated_query", "rotated_key", "mixed", "gate", "up", "normed",
])  # fmt: skip
def test_results_are_rounded_to_nearest_and_saturate_only_at_16_bits(
    answer: Answer, kind: str
) -> None:
    for change in (1, -1, 65536, -65536, 1 << 17, 1 << 32, -(1 << 32)):
        assert failures(answer, forge(answer, {f"{kind}.quotient": at(1, 1, change)})), change
        assert failures(answer, forge(answer, {kind: at(1, 1, change)})), change


@pytest.mark.parametrize("kind", ["residual", "hidden", "unit", "score"])
def test_wide_results_are_rounded_to_nearest(answer: Answer, kind: str) -> None:
    for change in (1, -1, 1 << 16, 1 << 28, 1 << 32, -(1 << 32)):
        assert failures(answer, forge(answer, {kind: at(1, 1, change)})), change


def test_remainders_cannot_wrap_around(answer: Answer) -> None:
    """A result that is off by one has the remainder r - 2^S, whose residue has more limbs."""
    key = answer.prover.key
    shapes = Columns(key, answer.statement).shapes
    for kind, rounding in key.roundings.items():
        if rounding.limbs == 1:
            continue
        result = f"{kind}.quotient" if f"{kind}.quotient" in shapes else kind
        forgery = forge(answer, {result: at(0, 1, 1)})
        wrapped = {name: values.copy() for name, values in forgery.arrays.items()}
        top = wrapped[f"{kind}.limb{rounding.limbs - 1}"][0]
        form = (int(top[1]) << 16 * (rounding.limbs - 1)) + P  # but for limbs below
        assert form > 0
        for limb in range(1, rounding.limbs):
            value = form >> 16 * limb
            wrapped[f"{kind}.limb{limb}"][0, 1] = (
                value if limb == rounding.limbs - 1 else value & 65535
            )
        assert failures(answer, SimpleNamespace(arrays=wrapped, sums=forgery.sums)), kind


def test_inverse_roots_are_unique(answer: Answer) -> None:
    for change in (1, -1, 1 << 20, -(1 << 20)):
        assert "range" in failures(answer, forge(answer, {"norm.root": at(0, 3, change)}))
    # R^2 m would be 2^62 modulo p for a root of 2^62 / m modulo p, which has no limbs.
    assert "range" in failures(answer, forge(answer, {"norm.root": everywhere(lambda root: -root)}))


def test_alignments_of_norms_are_unique(answer: Answer) -> None:
    """Another t, with the mantissa and the inverse root that follow from it."""
    for change in range(-8, 9):
        if change:
            wrong = failures(answer, forge(answer, {"alignment": at(0, 2, change, group=1)}))
            assert "range" in wrong or "norm" in wrong, change


def test_mantissas_of_norms_are_unique(answer: Answer) -> None:
    for change in (1, -1):
        assert "range" in failures(answer, forge(answer, {"norm.mantissa": at(0, 2, change)}))


@pytest.mark.parametrize("name", ["power", "multiple", "scale", "small", "top"])
def test_constants_of_an_alignment_belong_together(answer: Answer, name: str) -> None:
    lie = everywhere(lambda values: values * 4 if name != "small" else 1 - values)
    assert "norm" in failures(answer, forge(answer, {f"norm.{name}": lie}))


def test_inverses_of_sums_are_unique(answer: Answer) -> None:
    for change in (1, -1, 1 << 16, 1 << 31):
        assert "range" in failures(answer, forge(answer, {"inverse": at(0, 2, change)}))


@pytest.mark.thorough
def test_the_sum_of_exponentials_is_not_the_provers(answer: Answer) -> None:
    """The inverse of another sum, which the sum of the committed exponentials contradicts."""
    total = forge(answer, {}).sums["total.sum"] - 1
    rows = iter((1 << 46) // total)
    forgery = forge(answer, {"inverse": lambda *_: next(rows)})
    forgery.sums["total.sum"] = total
    forgery.sums["inverse.sum"] = total * forgery.arrays["inverse"]
    leftover = (1 << 46) - forgery.sums["inverse.sum"]
    forgery.arrays["inverse.rest"] = leftover >> 16
    forgery.arrays["inverse.room"] = total - 1 - leftover >> 16
    assert failures(answer, forgery) == {}
    assert refusal(answer.prover, answer.statement, forgery)


def test_exponentials_are_those_of_the_scores(answer: Answer) -> None:
    for change in (1, -1, 100):
        assert "exp" in failures(answer, forge(answer, {"weight": at(3, 1, change)}))
        assert "range" in failures(answer, forge(answer, {"score": at(3, 1, change)}))


def test_later_keys_have_no_weight(answer: Answer) -> None:
    visible = at(1, 2, -(1 << answer.prover.key.score_bits) + 1)
    assert "range" in failures(answer, forge(answer, {"score": visible}))
    assert "exp" in failures(answer, forge(answer, {"weight": at(1, 2, 32767)}))


def test_activations_are_those_of_the_gate(answer: Answer) -> None:
    for change in (1, -1):
        wrong = failures(answer, forge(answer, {"activated": at(1, 1, change)}))
        assert "activation" in wrong
    gates = forge(answer, {}).arrays["gate"]
    identity = iter(np.split(gates, answer.prover.key.layers))
    assert "activation" in failures(answer, forge(answer, {"activated": lambda *_: next(identity)}))


def test_the_largest_score_is_one_of_the_scores(answer: Answer) -> None:
    """A larger one, from which all half steps, weights and results follow."""
    forgery = forge(answer, {"largest": at(0, 3, 1)})
    assert failures(answer, forgery) == {}
    assert refusal(answer.prover, answer.statement, forgery)


@pytest.mark.thorough
def test_the_largest_score_is_that_of_a_visible_key(answer: Answer) -> None:
    """The score of a key behind the query, where it is larger."""
    scores = (
        forge(answer, {}).sums["products"].reshape(-1, *[1 << answer.statement.log_positions] * 2)
    )
    largest = np.where(np.tri(scores.shape[1], dtype=bool), scores, -(1 << 62)).max(axis=2)
    for head, query, key in np.argwhere(scores > largest[:, :, None]).tolist():
        assert key > query

        def lie(
            number: int, chosen: Integers, at: tuple[int, int, int] = (head, query, key)
        ) -> Integers:
            if number == at[0]:
                chosen[at[1]] = at[2]
            return chosen

        forgery = forge(answer, {"choice": lie})
        if failures(answer, forgery) == {}:  # the text is still the model's choice
            assert refusal(answer.prover, answer.statement, forgery)
            return
    raise AssertionError("no score of a later key can be the largest")


def test_the_largest_score_is_not_half_a_step_too_small(answer: Answer) -> None:
    """Steps are rounded to nearest; their half steps are rounded down, so -1 is no index."""
    key = answer.prover.key
    gap = (1 << key.roundings["score"].shifts[0]) // key.constants[0].multiplier
    for change in (1, gap):
        assert (
            round_shift(-change * key.constants[0].multiplier, key.roundings["score"].shifts[0] + 1)
            == 0
        )
        assert "exp" in failures(answer, forge(answer, {"largest": at(0, 3, -change)}))


def test_another_token_is_not_the_largest_logit(answer: Answer) -> None:
    """Its margins are negative; neither they nor their residues modulo p have three limbs."""
    tokens = answer.statement.tokens
    for position in range(answer.statement.prompt, len(tokens)):
        other = Statement(
            (*tokens[:position], (tokens[position] + 1) % VOCABULARY), answer.statement.prompt
        )
        forgery = forge(answer, {}, other)
        assert "range" in failures(answer, forgery, other)
        margins = forgery.sums["margin"]
        residues = margins.astype(object) % P
        for split in (
            {"margin.limb1": residues >> 16 & 65535, "margin.limb2": residues >> 32},
            {"margin.limb1": residues >> 16 & 65535, "margin.limb2": residues >> 32 & 65535},
            {"margin.limb1": margins >> 16 & 65535, "margin.limb2": margins >> 32 & 65535},
        ):  # fmt: skip
            arrays = {name: np.asarray(values, np.int64) for name, values in split.items()}
            forged = SimpleNamespace(arrays={**forgery.arrays, **arrays}, sums=forgery.sums)
            assert "range" in failures(answer, forged, other)


def test_equal_logits_choose_the_lowest_token(answer: Answer) -> None:
    """The margin of a lower token with the same logit is -1."""
    columns = Columns(answer.prover.key, answer.statement)
    token = answer.statement.chosen[0]
    honest = forge(answer, {})
    margins = honest.sums["margin"].copy()
    margins[:token, 0] = -1
    arrays = {
        **honest.arrays, "margin.limb1": margins >> 16 & 65535, "margin.limb2": margins >> 32
    }  # fmt: skip
    forgery = SimpleNamespace(arrays=arrays, sums={**honest.sums, "margin": margins})
    assert failing_lookups(answer.prover.key, columns, forgery, honest)


def test_columns_behind_the_last_choice_are_zero(answer: Answer) -> None:
    last = len(answer.statement.chosen)
    assert 1 << answer.statement.log_chosen > last
    for limb in (1, 2):
        assert "range" in failures(answer, forge(answer, {f"margin.limb{limb}": at(3, last, 1)}))


def test_sums_of_squares_are_not_the_provers(answer: Answer) -> None:
    """Another sum of squares, with the alignment, mantissa and root that follow."""
    forgery = forge(answer, {"squares": at(0, 2, 1 << 24, group=2)})
    assert failures(answer, forgery) == {}
    assert refusal(answer.prover, answer.statement, forgery)


def test_multiplicities_are_proved(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A multiplicity that is too large by one."""
    honest = lookup_prover.multiplicities

    def wrong(*arguments: Any) -> Any:
        counts = honest(*arguments)
        counts[0, 0] += 1  # a word of an element
        return counts

    monkeypatch.setattr(lookup_prover, "multiplicities", wrong)
    assert refusal(answer.prover, answer.statement, forge(answer, {}))


@pytest.mark.parametrize(("name", "group"), [
    ("residual.sum", 2), ("logits", 0),
    *(
        pytest.param(name, group, marks=pytest.mark.thorough)
        for name, group in (
            ("query.sum", 1), ("key.sum", 0), ("value.sum", 1), ("gate.sum", 1), ("up.sum", 0),
            ("residual.sum", 0), ("residual.sum", 1), ("residual.sum", 4), ("normed.sum", 3),
            ("rotated_query.sum", 1), ("rotated_key.sum", 0), ("mixed.sum", 1), ("hidden.sum", 1),
            ("unit.sum", 1), ("score.sum", 3),
        )
    ),
])  # fmt: skip
def test_sums_are_those_of_the_weights_and_committed_values(
    answer: Answer, name: str, group: int
) -> None:
    """A sum that is off by one, of each kind, in several layers: all lookups hold."""
    forgery = forge(answer, {name: at(1, 1, 1, group)})
    assert failures(answer, forgery) == {}
    assert refusal(answer.prover, answer.statement, forgery)


@pytest.mark.thorough
def test_the_weights_are_those_of_the_key(answer: Answer, tmp_path: Path) -> None:
    """The proof of a model with other weights, made with the commitments of the key."""
    key, prompt = answer.prover.key, answer.statement.prompt
    other, digest = tiny_program(
        tmp_path, width=32, hidden=64, heads=2, kv_heads=1, kinds=("Q4_1", "Q8_0"), seed=7
    )
    prover = Prover("cpu", other, digest)
    statement = Statement(text_of(other, list(answer.statement.tokens[:prompt]), 5), prompt)
    verify(prover.key, statement, prover.prove(statement))
    prover.key = replace(prover.key, roots=key.roots, model=key.model)
    proof = forged_proof(prover, statement, Forgery(prover.key, other, statement))
    for verifying in (prover.key, key):
        with pytest.raises(VerificationError):
            verify(verifying, statement, proof)


def test_exact_values_are_those_of_leaves(answer: Answer) -> None:
    honest = forge(answer, {})
    arrays = {**honest.arrays, "residual.before": np.zeros_like(honest.arrays["residual"])}
    for leaves in Columns(answer.prover.key, answer.statement).runs["clamp"].tuples:
        for leaf in leaves:
            assert np.array_equal(
                exact_values(leaf, arrays, honest.sums), leaf.values(arrays, honest.sums)
            )
