"""Witnesses that a worker computes during the proof before."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quod.errors import DeviceError
from quod.filecoin.proving import Prover
from quod.service.filecoin.next_witness import NextWitness
from quod.service.queue.records import Lease


class Witnesses:
    """A prover whose witness of inputs is a text, and that fails for the input -1."""

    def __init__(self) -> None:
        self.computed: list[int] = []

    def witness(self, inputs: int) -> str:
        self.computed.append(inputs)
        if inputs < 0:
            raise DeviceError("too little memory")
        return f"witness of {inputs}"


@pytest.fixture
def ahead() -> Iterator[NextWitness]:
    witness = NextWitness()
    yield witness
    witness.close()


def lease(job: str, partition: int) -> Lease:
    return cast(Lease, SimpleNamespace(job=job, partition=partition))


def compute(ahead: NextWitness, job: str, partition: int, inputs: list[int]) -> Witnesses:
    prover = Witnesses()
    ahead.compute(lease(job, partition), cast(Prover, prover), cast(Any, inputs))
    return prover


def test_the_witness_of_the_next_partition(ahead: NextWitness) -> None:
    assert ahead.take(lease("a", 0)) is None
    prover = compute(ahead, "a", 0, [10, 11, 12])
    assert cast(Any, ahead.take(lease("a", 1))) == "witness of 11"
    assert prover.computed == [11]
    # It is given out once.
    assert ahead.take(lease("a", 1)) is None
    compute(ahead, "a", 2, [10, 11, 12])
    assert ahead.take(lease("a", 3)) is None


def test_partitions_that_other_workers_claim_are_left_out(ahead: NextWitness) -> None:
    compute(ahead, "a", 0, [*range(10)])
    ahead.take(lease("a", 2))
    prover = compute(ahead, "a", 2, [*range(10)])
    assert cast(Any, ahead.take(lease("a", 4))) == "witness of 4"
    assert prover.computed == [4]


def test_another_job_does_not_get_it(ahead: NextWitness) -> None:
    compute(ahead, "a", 0, [0, 1])
    assert ahead.take(lease("b", 1)) is None


def test_a_failed_witness_is_computed_again_by_the_worker(ahead: NextWitness) -> None:
    compute(ahead, "a", 0, [0, -1])
    assert ahead.take(lease("a", 1)) is None
