"""Launches that begin while those before them end: in recordings, on devices and on models of them.

The models begin a launch as early as its edges allow, run it up to where it waits, and run what it
waits for there: an edge that is missing, or of the wrong kind, shows.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer
from quod.device.cuda.device import CudaDevice
from quod.device.cuda.graph import _Overlaps
from quod.device.discovery import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Launch, Recording
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.kernel import U32, Builder, Pointer, kernel, u32
from tests.device.cuda_fixture import open_gpu
from tests.support.devices import present

LANES = 32
Words = np.ndarray[Any, np.dtype[np.uint32]]


@kernel(workgroup=LANES, constant="w")
def mix(
    k: Builder, n: U32, rounds: U32, zero: U32, w: Pointer[U32], x: Pointer[U32],
    y: Pointer[U32], *, waits: bool, triggers: str,
) -> None:  # fmt: skip
    """y[i] = 3 y[i] + x[n - 1 - i] + w[i]; w is loaded before what else there is may be reached.

    `rounds` make it take longer, and change nothing, as `zero` is that.
    """
    i = k.global_id()
    with k.if_(i < n) as branch:
        branch.yield_(w[i])
    with branch.otherwise():
        branch.yield_(k.constant(0, u32))
    if triggers == "early":
        k.launch_dependents()
    if waits:
        k.dependency_wait()
    with k.range(0, rounds, carry=zero) as loop:
        loop.next(loop.carried * i)
    if triggers == "late":
        k.launch_dependents()
    with k.if_(i < n):
        y[i] = y[i] * 3 + x[n - 1 - i] + branch.results + loop.results


def mixed(w: Words, x: Words, y: Words) -> Words:
    return y * np.uint32(3) + x[::-1] + w


VARIANTS = (
    {"waits": True, "triggers": "early"}, {"waits": True, "triggers": "late"},
    {"waits": True, "triggers": "never"}, {"waits": False, "triggers": "never"},
)  # fmt: skip


@pytest.fixture(
    scope="module", params=present("cpu", "webgpu", "emulated", "emulated:ptx", "simulated", "cuda")
)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param in ("simulated", "cuda"):
        opened: Any = open_gpu(request.param, tmp_path_factory.mktemp("cache"))
    else:
        opened = open_device(request.param)
    yield opened
    opened.close()


def content(device: AnyDevice, buffer: Buffer) -> Words:
    out = np.zeros(buffer.nbytes // 4, np.uint32)
    device.download(buffer, out)
    return out


def is_model(device: AnyDevice) -> bool:
    return isinstance(device, EmulatedDevice) or (
        isinstance(device, CudaDevice) and device.properties.name.startswith("Model")
    )


def random_steps(
    stream: RecordingStream, device: AnyDevice, chosen: random.Random, buffers: list[Buffer],
    arrays: list[Words], count: int,
) -> None:  # fmt: skip
    """Records steps on buffers, and takes them on arrays."""
    n = len(arrays[0])
    for number in range(count):
        kind = chosen.choice(["launch"] * 8 + ["copy", "fill", "event", "nothing"])
        a, b, c = chosen.sample(range(len(buffers)), 3)
        if kind == "copy":
            stream.copy(buffers[a], buffers[b])
            arrays[b][:] = arrays[a]
        elif kind == "fill":
            stream.fill(buffers[a], number)
            arrays[a][:] = number
        elif kind == "event":
            stream.event(f"event {number}")
        else:
            static = chosen.choice(VARIANTS)
            groups = -(-n // LANES) if kind == "launch" else 0
            rounds = chosen.choice([0, 3])
            kernel = device.compile(mix, **static)
            stream.launch(kernel, groups, n, rounds, 0, buffers[a], buffers[b], buffers[c])
            if groups:
                arrays[c][:] = mixed(arrays[a], arrays[b], arrays[c])


@pytest.mark.parametrize("timed", [False, True])
def test_recordings_equal_sequential_execution(device: AnyDevice, timed: bool) -> None:
    """Random steps; constant arrays are results of earlier steps."""
    chosen = random.Random(7)
    for _ in range(2 if timed else 12):
        arrays = [np.random.default_rng(at).integers(0, 1 << 32, 40, np.uint32) for at in range(5)]
        buffers = [device.upload(array) for array in arrays]
        stream = device.stream().record()
        random_steps(stream, device, chosen, buffers, arrays, 15)
        timeline = Timeline() if timed else None
        recorded = stream.finish()
        recorded.submit(timeline).wait()
        if timeline is not None:
            steps = recorded.recording.steps
            rows = timeline.rows()
            assert sorted(row.name for row in rows) == sorted(step.label for step in steps)
            assert all(row.parent is None for row in rows)
        for buffer, array in zip(buffers, arrays, strict=True):
            assert (content(device, buffer) == array).all()


def chain(device: AnyDevice, length: int, w: Buffer, pair: list[Buffer], rounds: int) -> Recording:
    """Launches that each take what the one before stored, back and forth between two buffers."""
    n = w.nbytes // 4
    stream = device.stream().record()
    for number in range(length):
        kernel = device.compile(mix, **VARIANTS[0 if rounds == 0 else number % 3])
        x, y = pair[number % 2], pair[1 - number % 2]
        stream.launch(kernel, -(-n // LANES), n, rounds, 0, w, x, y)
    return stream.finish().recording


@pytest.mark.parametrize("rounds", [0, 100])
def test_chains_repeat(device: AnyDevice, rounds: int) -> None:
    """On a GPU a thousand times: each launch begins while the one before stores."""
    on_gpu = device.kind == "cuda" and not is_model(device)
    n, length, times = (20000, 12, 1000) if on_gpu else (70, 4, 3)
    if rounds and not on_gpu:
        rounds = 2
    arrays = [np.arange(n, dtype=np.uint32) * (at + 2) for at in range(3)]
    w, *pair = [device.upload(array) for array in arrays]
    recording = chain(device, length, w, pair, rounds)
    stream = device.stream()
    for _ in range(times):
        stream = stream.replay(recording).submit().wait()
        for number in range(length):
            x, y = arrays[1 + number % 2], arrays[2 - number % 2]
            y[:] = mixed(arrays[0], x, y)
    for buffer, array in zip(pair, arrays[1:], strict=True):
        assert (content(device, buffer) == array).all()


@pytest.mark.parametrize("kind", ["emulated", "simulated"])
def test_dependency_analysis_handles_long_chains(kind: str, tmp_path: Path) -> None:
    """A launch may begin before the one before it, and so on, as far as Python's stack goes."""
    device: Any = open_device(kind) if kind == "emulated" else open_gpu(kind, tmp_path)
    ones = np.ones(4, np.uint32)
    w, *pair = [device.upload(ones * at) for at in (0, 0, 0)]
    device.stream().replay(chain(device, 400, w, pair, 0)).submit().wait()
    assert not content(device, pair[0]).any()


def test_single_launch_has_no_dependencies(device: AnyDevice) -> None:
    w, x, y = (np.arange(40, dtype=np.uint32) * at for at in (1, 2, 3))
    expected = mixed(w, x, y)
    device.launch(device.compile(mix, **VARIANTS[0]), 2, 40, 1, 0, w, x, y)
    assert (y == expected).all()


# --- which steps overlap


def overlapped(recording: Recording) -> list[tuple[int, ...]]:
    return [step.overlapped for step in recording.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("kind", ["emulated", "simulated"])
def test_steps_overlap_except_for_early_reads(kind: str, tmp_path: Path) -> None:
    device: Any = open_device(kind) if kind == "emulated" else open_gpu(kind, tmp_path)
    waiting, plain = (device.compile(mix, **VARIANTS[at]) for at in (0, 3))
    w, x, y, z = (device.allocate(4 * LANES) for _ in range(4))
    stream = device.stream().record()
    stream.fill(w, 3)
    stream.launch(waiting, 1, LANES, 0, 0, w, x, y)  # 1: w is there
    stream.launch(waiting, 1, LANES, 0, 0, w, y, z)  # 2: behind 1
    stream.launch(waiting, 1, LANES, 0, 0, z, y, x)  # 3: z is there
    stream.launch(plain, 1, LANES, 0, 0, w, x, y)  # 4
    stream.launch(waiting, 1, LANES, 0, 0, w, y, z)  # 5: behind 2 to 4
    event = device.stream("other").record().event("elsewhere")
    stream.wait_for(event)
    stream.launch(waiting, 1, LANES, 0, 0, w, y, z)  # 7: behind the event
    stream.launch(waiting, 1, LANES, 0, 0, w, z, y)  # 8: behind 7
    recorded = stream.finish().recording
    assert [step.after for step in recorded.steps] == [
        (), (0,), (0, 1), (1, 2), (0, 1, 2, 3), (0, 2, 3, 4), (5,), (6,), (7,),
    ]  # fmt: skip
    assert overlapped(recorded) == [(), (1,), (1,), (), (2, 3, 4), (), (7,)]


def test_implied_edges_are_omitted(tmp_path: Path) -> None:
    """A launch with several edges does not overlap with any of its predecessors."""
    device = open_gpu("simulated", tmp_path)
    waiting = device.compile(mix, **VARIANTS[0])
    w, x, y, z = (device.allocate(4 * LANES) for _ in range(4))
    stream = device.stream().record()
    stream.fill(w, 3)  # 0
    stream.launch(waiting, 1, LANES, 0, 0, w, x, y)  # 1: w is there
    stream.launch(waiting, 1, LANES, 0, 0, w, y, x)  # 2: w was there when 1 began
    stream.launch(waiting, 1, LANES, 0, 0, w, x, y)  # 3: behind 1, too, which 2 waits for
    stream.fill(z, 4)  # 4
    stream.launch(waiting, 1, LANES, 0, 0, w, z, y)  # 5: behind a step that is no launch
    stream.launch(waiting, 1, LANES, 0, 0, y, z, x)  # 6: y is there
    steps = stream.finish().recording.steps
    overlaps = _Overlaps(device.driver, steps, 0)
    assert [overlaps.split(step) for step in steps] == [
        ([], []), ([0], []), ([], [1]), ([], [2]), ([], []), ([4], [3]), ([5], []),
    ]  # fmt: skip


def test_older_gpus_drivers_and_bindings_do_not_overlap(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")
    from tests.device.fake_cuda import FakeCuda

    class OfCuda12(FakeCuda):
        """Bindings that have the function with kinds of edges under a name of its own."""

        _cuGraphAddDependencies_v2 = FakeCuda._cuGraphAddDependencies

        def _cuGraphAddDependencies(self, *_: Any) -> None:
            raise AssertionError("it takes no kinds of edges")

    for bindings, edges in (
        (FakeCuda(), 3),
        (OfCuda12(), 3),
        (FakeCuda(version=12020), 0),
        (FakeCuda(capability=(8, 0)), 0),
    ):
        with CudaDevice(bindings=bindings) as device:
            w, *pair = [device.upload(np.arange(70, dtype=np.uint32)) for _ in range(3)]
            device.stream().replay(chain(device, 4, w, pair, 1)).submit().wait()
            name = "cuGraphAddDependencies"
            assert bindings.calls[name] + bindings.calls[f"{name}_v2"] == edges
