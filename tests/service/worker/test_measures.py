"""Busy shares, gaps and phases, from records and timelines that are known."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest

from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.intervals import union
from quod.device.runtime.timeline import Timeline
from quod.groth16 import ProvingKey
from quod.service.worker.measures import Phases, device_use, phases_of
from quod.service.worker.pools.pool import Stage, StageRecord
from tests.service.keys.conftest import BN254


def record(stage: Stage, begin: float, end: float, payload: int = 0) -> StageRecord:
    return StageRecord("cpu", "job", 0, "key", stage, begin, end, payload)


def test_interval_union_matches_brute_force() -> None:
    chance = random.Random(1)
    for _ in range(200):
        intervals = []
        for _ in range(chance.randrange(6)):
            begin = chance.randrange(20)
            intervals.append((begin, begin + chance.randrange(1, 6)))
        merged = union(intervals)
        points = {point for begin, end in intervals for point in range(begin, end)}
        assert {point for begin, end in merged for point in range(int(begin), int(end))} == points
        assert all(interval[1] < other[0] for interval, other in pairwise(merged))


def test_device_use_by_stage() -> None:
    records = [
        record(Stage.PROVE, 0.0, 2.0), record(Stage.PROVE, 1.5, 3.0), record(Stage.PROVE, 4.0, 9.0),
        record(Stage.CHECK, 3.0, 4.0), record(Stage.UPLOAD, 1.0, 1.5, 1000),
        record(Stage.UPLOAD, 6.0, 6.5, 3000), record(Stage.UPLOAD, 9.0, 9.5, 1),
    ]  # fmt: skip
    use = device_use(records, 1.0, 7.0)
    assert use.busy == pytest.approx(5 / 6)
    assert use.gaps == (1.0,)
    assert (use.uploads, use.uploaded_bytes, use.upload_rate) == (2, 4000, 4000.0)
    assert device_use([], 1.0, 1.0).busy == 0
    assert device_use([], 0.0, 1.0).upload_rate == 0


def test_phases_cover_all_device_work() -> None:
    timeline = Timeline()
    with timeline.stage("sums") as sums:
        parts = {
            "A·w, B·w": 5, "inverse": 7, "MSM H: accumulate": 11, "MSM H: reduce": 13,
            "MSM A: accumulate": 17, "MSM B2: accumulate": 19, "MSM A: digits": 23,
            "MSM C: reduce": 29, "upload": 1000, "fixed terms": 1000,
        }  # fmt: skip
        at = 0
        for name, took in parts.items():
            timeline.record(name, at, at + took * 10**6, track="proof", parent=sums)
            at += took * 10**6
    timeline.record("self-check", 0, 10**9, track="host")
    phases = phases_of(timeline)
    assert phases == Phases(36.0, 36.0, 52.0)
    assert phases.gpu_total_ms == 124.0


def test_phases_of_a_proof() -> None:
    key = ProvingKey.from_zkey(BN254 / "circuit.zkey")
    timeline = Timeline()
    key.prove(BN254 / "witness.wtns", timeline=timeline)
    phases = phases_of(timeline)
    assert min(phases.ntt_msm_h_ms, phases.batch_add_ms, phases.tail_msm_ms) > 0
    key.close()


def test_a_meter_counts_overlaps_once() -> None:
    meter, inside, go = BusyMeter(), threading.Barrier(3), threading.Event()

    def work() -> None:
        with meter.working():
            inside.wait()
            go.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    first = meter.seconds
    second = meter.seconds
    assert 0 < first < second
    go.set()
    for thread in threads:
        thread.join()
    total = meter.seconds
    assert total >= second
    # Nothing is under way.
    assert meter.seconds == total
