"""Proofs that are begun together: each goes on by itself, with sums of the processor."""

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
def own(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("together"), "bn254")


def opened(paths: list[Path]) -> list[Witness]:
    return [Witness.open(path) for path in paths]


def pending(begun: PendingOrError) -> Any:
    """One that could be begun."""
    if isinstance(begun, Exception):
        raise begun
    return begun


def test_each_has_a_proof_of_its_own(own: Made) -> None:
    own.batches.sizes.clear()
    begun = [pending(one) for one in own.key.begin_together(opened(own.witnesses[:_MOST]))]
    assert own.batches.sizes == [_MOST]
    # In any order, whoever asks first.
    proofs: dict[int, Proof] = {}
    for place in (1, 0, 2):
        proofs[place] = begun[place].compute()
    for place in (2, 0, 1):
        begun[place].check(proofs[place])
        assert begun[place].public == own.expected[place][1]
        assert own.key.self_check_key.verify(begun[place].public, proofs[place])
        begun[place].close()
    assert len({proof.a for proof in proofs.values()}) == _MOST
    assert not own.batches.open


@pytest.mark.parametrize("name", ["compute", "verdicts"])
def test_computed_and_verified_once(own: Made, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    calls: list[int] = []
    original = getattr(PendingBatch, name)

    def counted(self: PendingBatch, *given: Any) -> Any:
        calls.append(len(self.statements))
        return original(self, *given)

    monkeypatch.setattr(PendingBatch, name, counted)
    for one in own.key.begin_together(opened(own.witnesses[:2])):
        pending(one).check(pending(one).compute())
    assert calls == [2]


def test_what_one_of_them_lacks_is_told_of_it_alone(own: Made) -> None:
    good = opened(own.witnesses[:1])[0]
    values = good.values.copy()
    values[-1] = 0xFFFFFFFF
    absent = Witness("absent.wtns", good.curve, values, good.size)
    for bad, error, text in (
        (absent, InputError, r"absent.wtns: has a value that is not below the order of bn254\.g1"),
        (Witness.open(own.other), MismatchError, "values and the key"),
    ):
        own.batches.sizes.clear()
        first, found, last = own.key.begin_together([good, bad, good])
        assert isinstance(found, error)
        with pytest.raises(error, match=text):
            raise found
        for one in (first, last):
            assert isinstance(one, BatchedProof)
            one.check(one.compute())
        assert own.batches.sizes == [2]
    # One that is left is begun alone.
    own.batches.sizes.clear()
    found, one = own.key.begin_together([absent, good])
    assert isinstance(found, InputError)
    one = pending(one)
    one.check(one.compute())
    assert own.batches.sizes == []
    assert not own.batches.open


def test_only_the_wrong_one_does_not_verify(own: Made) -> None:
    wrong = Witness.open(own.wrong)
    good, bad, other = (
        pending(one)
        for one in own.key.begin_together(
            [*opened(own.witnesses[:1]), wrong, *opened(own.witnesses[1:2])]
        )
    )
    for one in (good, other):
        one.check(one.compute())
    with pytest.raises(VerificationError, match=r"wrong\.wtns: the proof does not verify"):
        bad.check(bad.compute())
    assert not own.batches.open


def test_one_that_is_not_wanted_leaves_the_others(own: Made) -> None:
    first, second = (pending(one) for one in own.key.begin_together(opened(own.witnesses[:2])))
    first.cancel()
    first.close()
    assert own.batches.open
    second.check(second.compute())
    second.close()
    first, second = (pending(one) for one in own.key.begin_together(opened(own.witnesses[:2])))
    cancellation = first._shared.batch.context.cancellation
    first.cancel()
    first.cancel()
    cancellation.check("the others")
    second.cancel()
    with pytest.raises(DeviceError):
        cancellation.check("the last")
    first.close()
    first.close()
    assert own.batches.open
    second.close()
    assert not own.batches.open


def test_what_ended_before_it_was_cancelled_wants_nothing(own: Made) -> None:
    first, second = (pending(one) for one in own.key.begin_together(opened(own.witnesses[:2])))
    cancellation = first._shared.batch.context.cancellation
    first.close()
    cancellation.check("the other")
    second.cancel()
    with pytest.raises(DeviceError):
        cancellation.check("the last")
    second.close()


def test_an_error_is_that_of_all(own: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    own.batches.error = DeviceError("lost")
    found = own.key.begin_together(opened(own.witnesses[:2]))
    own.batches.error = None
    assert [str(one) for one in found] == ["lost", "lost"]
    monkeypatch.setattr(PendingBatch, "compute", failing(DeviceError("gone")))
    for one in own.key.begin_together(opened(own.witnesses[:2])):
        with pytest.raises(DeviceError, match="gone"):
            pending(one).compute()
        pending(one).close()
    assert not own.batches.open


def test_the_times_of_each(own: Made) -> None:
    """Copies come one behind the other; all are computed at the same time."""
    meter = BusyMeter()
    begun = own.key.begin_together(opened(own.witnesses[:2]), meter=meter)
    first, second = (pending(one) for one in begun)
    spans = first._shared.batch.context.spans
    spans |= {"upload": (100, 200), "compute": (200, 900)}
    assert dict(first.spans) == {"upload": (100, 150), "compute": (200, 900)}
    assert dict(second.spans) == {"upload": (150, 200), "compute": (200, 900)}
    for one in (first, second):
        one.close()


def test_how_many(own: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(own.batches, "wait", lambda waiting: waits.append(waiting()))
    assert own.key.most_together == _MOST
    own.key.wait_for_turn(lambda: 2)
    assert waits == [2]
    with pytest.raises(InputError, match=r"4 witnesses are not proved together.*give up to 3"):
        own.key.begin_together(opened(own.witnesses[: _MOST + 1]))
    # A processor proves one at a time.
    key = ProvingKey(own.key.zkey)
    assert key.most_together == 1
    key.wait_for_turn(lambda: 2)
    [one] = key.begin_together(opened(own.witnesses[:1]))
    assert pending(one).finish()[1] == own.expected[0][1]
    with pytest.raises(InputError, match="give up to 1"):
        key.begin_together(opened(own.witnesses[:2]))
    assert own.key.begin_together([]) == []
    key.close()
