"""Stages nest, accumulate, survive exceptions and threads, and cost nothing without a listener."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from quod.device.runtime.timeline import NullTimeline, Stage, Timeline, or_null


class Recorder:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int, int]] = []

    def begin(self, stage: Stage) -> None:
        self.events.append(("begin", stage.name, stage.done, stage.total))

    def progress(self, stage: Stage) -> None:
        self.events.append(("progress", stage.name, stage.done, stage.total))

    def end(self, stage: Stage) -> None:
        self.events.append(("end", stage.name, stage.done, stage.total))


def test_stages_nest_within_their_parent() -> None:
    timeline = Timeline()
    with timeline.stage("prove") as prove:
        with timeline.stage("witness"):
            time.sleep(0.002)
        with timeline.stage("msm") as msm, timeline.stage("buckets"):
            pass
    names = [(stage.name, stage.depth) for stage in timeline.rows()]
    assert names == [("prove", 0), ("witness", 1), ("msm", 1), ("buckets", 2)]
    assert msm.parent is prove
    for stage in timeline.rows():
        assert stage.end_ns is not None
        if stage.parent is not None:
            assert stage.parent.end_ns is not None
            assert stage.parent.begin_ns <= stage.begin_ns <= stage.end_ns <= stage.parent.end_ns
    assert timeline.rows()[1].seconds >= 0.002


def test_table_puts_equal_names_under_one_parent_together() -> None:
    timeline = Timeline()
    begin = time.perf_counter_ns()
    parent_stage = timeline.record("whole", begin, begin + 1000, track="t")
    timeline.record("part", begin, begin + 100, track="t", parent=parent_stage, bytes=10, modmuls=1)
    timeline.record(
        "part", begin + 300, begin + 400, track="t", parent=parent_stage, bytes=30, modmuls=2
    )
    timeline.record("rest", begin + 400, begin + 900, track="t", parent=parent_stage)
    rows = timeline.table()
    assert [(row.name, row.depth, row.count) for row in rows] == [
        ("whole", 0, 1),
        ("part", 1, 2),
        ("rest", 1, 1),
    ]
    part = rows[1]
    assert (part.seconds, part.busy) == (pytest.approx(200e-9), pytest.approx(200e-9))
    assert (part.bytes, part.modmuls, part.share) == (40, 3, pytest.approx(0.2))
    assert part.bytes_per_second == pytest.approx(40 / 200e-9)
    assert part.modmuls_per_second == pytest.approx(3 / 200e-9)
    assert rows[0].bytes_per_second == 0.0


def test_exceptions_propagate_and_mark_the_stages() -> None:
    timeline = Timeline()
    with pytest.raises(KeyboardInterrupt), timeline.stage("outer"):
        with timeline.stage("fine"):
            pass
        with timeline.stage("inner"):
            raise KeyboardInterrupt
    failed = {stage.name: stage.failed for stage in timeline.rows()}
    assert failed == {"outer": True, "fine": False, "inner": True}
    assert all(stage.end_ns is not None for stage in timeline.rows())
    with timeline.stage("after") as after:
        assert after.parent is None


def test_threads_have_their_own_nesting_and_may_name_a_parent() -> None:
    timeline = Timeline()
    barrier = threading.Barrier(4)

    def work(parent: Stage) -> None:
        with timeline.stage("worker", parent=parent), timeline.stage("step") as step:
            barrier.wait(timeout=30)
            for _ in range(500):
                step.add(modmuls=1)
                parent.add(bytes=2)

    with timeline.stage("launch") as launch, ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, launch) for _ in range(4)]:
            future.result()
    assert launch.bytes == 4 * 500 * 2
    workers = [stage for stage in timeline.rows() if stage.name == "worker"]
    steps = [stage for stage in timeline.rows() if stage.name == "step"]
    assert {stage.parent for stage in workers} == {launch}
    assert {id(stage.parent) for stage in steps} == {id(stage) for stage in workers}
    assert len({stage.track for stage in workers}) == 4
    row = {row.name: row for row in timeline.table()}["step"]
    assert (row.count, row.depth, row.modmuls) == (4, 2, 2000)
    assert row.seconds > row.busy


def test_chrome_trace_has_one_event_a_stage_and_one_track_a_thread() -> None:
    timeline = Timeline()
    with timeline.stage("load", bytes=7):
        pass
    with pytest.raises(ValueError, match="boom"), timeline.stage("prove", modmuls=5):
        raise ValueError("boom")
    now = time.perf_counter_ns()
    timeline.record("kernel", now, now + 5000, track="stream 0")
    trace = json.loads(json.dumps(timeline.to_chrome_trace()))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in events] == ["load", "prove", "kernel"]
    assert events[0]["ts"] == 0
    assert events[2]["dur"] == 5.0
    assert [event["args"] for event in events] == [
        {"bytes": 7},
        {"modmuls": 5, "failed": True},
        {},
    ]
    assert all(earlier["ts"] <= later["ts"] for earlier, later in pairwise(events))
    tracks = {
        event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"
    }
    assert tracks[events[2]["tid"]] == "stream 0"
    assert events[0]["tid"] == events[1]["tid"] != events[2]["tid"]


def test_an_empty_timeline_exports() -> None:
    assert Timeline().table() == []
    assert Timeline().to_chrome_trace()["traceEvents"] == []


def test_a_running_stage_is_shown_up_to_now() -> None:
    timeline = Timeline()
    with timeline.stage("running"):
        time.sleep(0.001)
        assert timeline.table()[0].seconds >= 0.001
        assert timeline.to_chrome_trace()["traceEvents"][1]["dur"] >= 1000


def test_a_listener_hears_begin_progress_and_end() -> None:
    recorder = Recorder()
    timeline = Timeline(recorder)
    with timeline.stage("msm") as stage:
        stage.progress(1, 4)
    with pytest.raises(ValueError, match="boom"), timeline.stage("bad"):
        raise ValueError("boom")
    assert recorder.events == [
        ("begin", "msm", 0, 0),
        ("progress", "msm", 1, 4),
        ("end", "msm", 1, 4),
        ("begin", "bad", 0, 0),
        ("end", "bad", 0, 0),
    ]


def test_record_refuses_time_that_runs_backwards() -> None:
    with pytest.raises(ValueError, match="ends 1 ns before it begins"):
        Timeline().record("kernel", 10, 9, track="stream 0")


def test_null_timeline_records_nothing() -> None:
    null = or_null(None)
    assert isinstance(null, NullTimeline)
    with null.stage("work", bytes=1) as stage:
        stage.add(bytes=5, modmuls=5)
        stage.progress(1, 2)
    assert (stage.bytes, stage.done) == (0, 0)
    null.record("kernel", 0, 1, track="t")
    assert null.rows() == []
    with pytest.raises(ZeroDivisionError), null.stage("work"):
        raise ZeroDivisionError
    timeline = Timeline()
    assert or_null(timeline) is timeline


def test_table_groups_by_a_name_function() -> None:
    timeline = Timeline()
    for name in ("a 0", "b", "a 1"):
        with timeline.stage(name, bytes=1):
            pass
    rows = timeline.table(named=lambda name: name.split()[0])
    assert [(row.name, row.count, row.bytes) for row in rows] == [("a", 2, 2), ("b", 1, 1)]
    assert [row.name for row in timeline.table()] == ["a 0", "b", "a 1"]
