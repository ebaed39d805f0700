"""Witnesses that a worker computes during the proof before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quod.device.runtime.future import Outcome
from quod.errors import DeviceError
from quod.filecoin.proving import Prover
from quod.service.filecoin.next_witnesses import NextWitnesses
from quod.service.queue.records import Lease


class Witnesses:
    """A prover whose witness of inputs is a text, and that fails for the input -1."""

    def __init__(self, ahead: int) -> None:
        self.witnesses_ahead = ahead
        self.computed: list[int] = []

    def begin_witness(self, inputs: int) -> Outcome[str]:
        outcome: Outcome[str] = Outcome()
        self.computed.append(inputs)
        if inputs < 0:
            outcome.fail(DeviceError("too little memory"))
        else:
            outcome.set(f"witness of {inputs}")
        return outcome


@pytest.fixture
def ahead() -> Iterator[NextWitnesses]:
    witnesses = NextWitnesses()
    yield witnesses
    witnesses.clear()


def lease(job: str, partition: int) -> Lease:
    return cast(Lease, SimpleNamespace(job=job, partition=partition, key="porep-32g"))


def begin(
    ahead: NextWitnesses, job: str, partition: int, inputs: Sequence[int],
    prover: Witnesses | None = None,
) -> Witnesses:  # fmt: skip
    prover = prover or Witnesses(1)
    ahead.begin(lease(job, partition), cast(Prover, prover), cast(Any, inputs))
    return prover


def test_the_witness_of_the_next_partition(ahead: NextWitnesses) -> None:
    assert ahead.take(lease("a", 0)) is None
    prover = begin(ahead, "a", 0, [10, 11, 12])
    assert cast(Any, ahead.take(lease("a", 1))) == "witness of 11"
    assert prover.computed == [11]
    # It is given out once.
    assert ahead.take(lease("a", 1)) is None
    begin(ahead, "a", 2, [10, 11, 12])
    assert ahead.take(lease("a", 3)) is None


def test_two_witnesses_ahead_are_each_computed_once(ahead: NextWitnesses) -> None:
    inputs, prover = [10, 11, 12, 13], Witnesses(2)
    for partition in range(4):
        witness = cast(Any, ahead.take(lease("a", partition)))
        assert witness == (f"witness of {inputs[partition]}" if partition else None)
        begin(ahead, "a", partition, inputs, prover)
        assert prover.computed == [11, 12, 13][: partition + 2]


def test_partitions_that_other_workers_claim_are_left_out(ahead: NextWitnesses) -> None:
    begin(ahead, "a", 0, [*range(10)])
    ahead.take(lease("a", 2))
    prover = begin(ahead, "a", 2, [*range(10)], Witnesses(2))
    assert cast(Any, ahead.take(lease("a", 4))) == "witness of 4"
    assert prover.computed == [4, 6]


def test_another_job_does_not_get_it(ahead: NextWitnesses) -> None:
    begin(ahead, "a", 0, [0, 1])
    assert ahead.take(lease("b", 1)) is None


def test_witnesses_of_another_job_are_dropped_before_they_begin(ahead: NextWitnesses) -> None:
    prover, waiting = Witnesses(1), Outcome[str]()
    prover.begin_witness = lambda inputs: waiting  # type: ignore[method-assign]
    begin(ahead, "a", 0, [0, 1], prover)
    assert not waiting.done()
    # Before the other job's parameters are opened, which may need the memory.
    assert ahead.take(lease("b", 0)) is None
    assert waiting.done()
    assert ahead.take(lease("a", 1)) is None


def test_the_witnesses_of_a_job_are_kept_for_its_other_partitions(ahead: NextWitnesses) -> None:
    begin(ahead, "a", 0, [0, 1, 2], Witnesses(2))
    assert ahead.take(lease("a", 5)) is None
    assert cast(Any, ahead.take(lease("a", 2))) == "witness of 2"


def test_a_failed_witness_is_computed_again_by_the_worker(
    ahead: NextWitnesses, caplog: pytest.LogCaptureFixture
) -> None:
    begin(ahead, "a", 0, [0, -1])
    assert ahead.take(lease("a", 1)) is None
    (record,) = caplog.records
    assert record.getMessage() == "a witness that was computed ahead failed: too little memory"
    assert (cast(Any, record).job, cast(Any, record).partition) == ("a", 1)


def test_a_witness_of_parameters_that_were_closed_is_no_failure(
    ahead: NextWitnesses, caplog: pytest.LogCaptureFixture
) -> None:
    prover, waiting = Witnesses(1), Outcome[str]()
    prover.begin_witness = lambda inputs: waiting  # type: ignore[method-assign]
    begin(ahead, "a", 0, [0, 1], prover)
    waiting.drop()
    assert ahead.take(lease("a", 1)) is None
    assert not caplog.records
