"""Proofs begun together finish independently, with sums on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod.device.runtime.busy_time import BusyMeter
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.formats import Witness
from quod.groth16 import Proof, ProvingKey
from quod.groth16.batch_prover import BatchedProof, PendingBatch, PendingOrError
from tests.groth16.test_batch_prover import _MOST, Made, failing


@pytest.fixture(scope="module")
def proving_set(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("together"), "bn254")


def opened(paths: list[Path]) -> list[Witness]:
    return [Witness.open(path) for path in paths]


def pending(proof_or_error: PendingOrError) -> Any:
    """One that could be begun."""
    if isinstance(proof_or_error, Exception):
        raise proof_or_error
    return proof_or_error


def test_each_witness_gets_its_own_proof(proving_set: Made) -> None:
    proving_set.batches.sizes.clear()
    pending_proofs = [
        pending(proof_or_error)
        for proof_or_error in proving_set.key.begin_batch(opened(proving_set.witnesses[:_MOST]))
    ]
    assert proving_set.batches.sizes == [_MOST]
    # In any order, whoever asks first.
    proofs: dict[int, Proof] = {}
    for place in (1, 0, 2):
        proofs[place] = pending_proofs[place].compute()
    for place in (2, 0, 1):
        pending_proofs[place].check(proofs[place])
        assert pending_proofs[place].public == proving_set.expected[place][1]
        assert proving_set.key.self_check_key.verify(pending_proofs[place].public, proofs[place])
        pending_proofs[place].close()
    assert len({proof.a for proof in proofs.values()}) == _MOST
    assert not proving_set.batches.open


@pytest.mark.parametrize("name", ["compute", "verdicts"])
def test_computed_and_verified_once(
    proving_set: Made, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    calls: list[int] = []
    original = getattr(PendingBatch, name)

    def counted(self: PendingBatch, *arguments: Any) -> Any:
        calls.append(len(self.proof_inputs))
        return original(self, *arguments)

    monkeypatch.setattr(PendingBatch, name, counted)
    for proof_or_error in proving_set.key.begin_batch(opened(proving_set.witnesses[:2])):
        pending(proof_or_error).check(pending(proof_or_error).compute())
    assert calls == [2]


def test_witness_errors_affect_only_their_proof(proving_set: Made) -> None:
    good = opened(proving_set.witnesses[:1])[0]
    values = good.values.copy()
    values[-1] = 0xFFFFFFFF
    absent = Witness("absent.wtns", good.curve, values, good.size)
    for bad, error, text in (
        (absent, InputError, r"absent.wtns: has a value that is not below the order of bn254\.g1"),
        (Witness.open(proving_set.other), MismatchError, "values and the key"),
    ):
        proving_set.batches.sizes.clear()
        first, failure, last = proving_set.key.begin_batch([good, bad, good])
        assert isinstance(failure, error)
        with pytest.raises(error, match=text):
            raise failure
        for proof in (first, last):
            assert isinstance(proof, BatchedProof)
            proof.check(proof.compute())
        assert proving_set.batches.sizes == [2]
    # One that is left is begun alone.
    proving_set.batches.sizes.clear()
    failure, proof = proving_set.key.begin_batch([absent, good])
    assert isinstance(failure, InputError)
    proof = pending(proof)
    proof.check(proof.compute())
    assert proving_set.batches.sizes == []
    assert not proving_set.batches.open


def test_only_the_invalid_proof_fails_verification(proving_set: Made) -> None:
    wrong = Witness.open(proving_set.wrong)
    good, bad, other = (
        pending(proof)
        for proof in proving_set.key.begin_batch(
            [*opened(proving_set.witnesses[:1]), wrong, *opened(proving_set.witnesses[1:2])]
        )
    )
    for proof in (good, other):
        proof.check(proof.compute())
    with pytest.raises(VerificationError, match=r"wrong\.wtns: the proof does not verify"):
        bad.check(bad.compute())
    assert not proving_set.batches.open


def test_cancelled_proof_does_not_stop_the_others(proving_set: Made) -> None:
    first, second = (
        pending(proof) for proof in proving_set.key.begin_batch(opened(proving_set.witnesses[:2]))
    )
    first.cancel()
    first.close()
    assert proving_set.batches.open
    second.check(second.compute())
    second.close()
    first, second = (
        pending(proof) for proof in proving_set.key.begin_batch(opened(proving_set.witnesses[:2]))
    )
    cancellation = first._shared.batch.context.cancellation
    first.cancel()
    first.cancel()
    cancellation.check("the others")
    second.cancel()
    with pytest.raises(DeviceError):
        cancellation.check("the last")
    first.close()
    first.close()
    assert proving_set.batches.open
    second.close()
    assert not proving_set.batches.open


def test_closing_a_finished_proof_does_not_cancel_the_batch(proving_set: Made) -> None:
    first, second = (
        pending(proof) for proof in proving_set.key.begin_batch(opened(proving_set.witnesses[:2]))
    )
    cancellation = first._shared.batch.context.cancellation
    first.close()
    cancellation.check("the other")
    second.cancel()
    with pytest.raises(DeviceError):
        cancellation.check("the last")
    second.close()


def test_batch_error_reaches_every_proof(
    proving_set: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    proving_set.batches.error = DeviceError("lost")
    errors = proving_set.key.begin_batch(opened(proving_set.witnesses[:2]))
    proving_set.batches.error = None
    assert [str(proof_or_error) for proof_or_error in errors] == ["lost", "lost"]
    monkeypatch.setattr(PendingBatch, "compute", failing(DeviceError("gone")))
    for proof_or_error in proving_set.key.begin_batch(opened(proving_set.witnesses[:2])):
        with pytest.raises(DeviceError, match="gone"):
            pending(proof_or_error).compute()
        pending(proof_or_error).close()
    assert not proving_set.batches.open


def test_time_spans_of_each_proof(proving_set: Made) -> None:
    """Uploads are sequential; all proofs are computed in one span."""
    meter = BusyMeter()
    pending_proofs = proving_set.key.begin_batch(opened(proving_set.witnesses[:2]), meter=meter)
    first, second = (pending(proof) for proof in pending_proofs)
    spans = first._shared.batch.context.spans
    spans |= {"upload": (100, 200), "compute": (200, 900)}
    assert dict(first.spans) == {"upload": (100, 150), "compute": (200, 900)}
    assert dict(second.spans) == {"upload": (150, 200), "compute": (200, 900)}
    for proof in (first, second):
        proof.close()


def test_batch_size_is_limited(proving_set: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(proving_set.batches, "wait", lambda waiting: waits.append(waiting()))
    assert proving_set.key.max_batch == _MOST
    proving_set.key.wait_for_turn(lambda: 2)
    assert waits == [2]
    with pytest.raises(InputError, match=r"4 witnesses are too many for a batch.*give at most 3"):
        proving_set.key.begin_batch(opened(proving_set.witnesses[: _MOST + 1]))
    # A processor proves one at a time.
    key = ProvingKey(proving_set.key.zkey)
    assert key.max_batch == 1
    key.wait_for_turn(lambda: 2)
    [proof] = key.begin_batch(opened(proving_set.witnesses[:1]))
    assert pending(proof).finish()[1] == proving_set.expected[0][1]
    with pytest.raises(InputError, match="give at most 1"):
        key.begin_batch(opened(proving_set.witnesses[:2]))
    assert proving_set.key.begin_batch([]) == []
    key.close()
