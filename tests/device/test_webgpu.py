"""The device through WebGPU, on whatever adapter is there: Mesa's in software where no GPU is."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.device.cache.cache import CompileCache
from quod.device.discovery import open_device
from quod.device.runtime.timeline import Timeline
from quod.device.webgpu.compiler import KernelSource
from quod.device.webgpu.device import WebGpuDevice
from quod.device.webgpu.kernel import grid
from quod.device.webgpu.memory import ALIGNMENT
from quod.errors import DeviceError, KernelError
from quod.kernel import F32, I64, U32, U64, Bool, Builder, Pointer, kernel
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir import types
from tests.device import kernels
from tests.support.browser import SWIFTSHADER
from tests.support.thorough import one_and_others


@kernel
def count_groups(k: Builder, n: U32, out: Pointer[U32]) -> None:
    """out[i] += 1 in workgroup i."""
    i = k.workgroup_id()
    with k.if_((k.local_id() == 0) & (i < n)):
        out[i] = out[i] + 1


@kernel
def sum_of_ten(
    k: Builder, a: Pointer[U32], b: Pointer[U32], c: Pointer[U32], d: Pointer[U32],
    e: Pointer[U32], f: Pointer[U32], g: Pointer[U32], h: Pointer[U32], i: Pointer[U32],
    out: Pointer[U32],
) -> None:  # fmt: skip
    """More pointers than there are bindings."""
    at = k.local_id()
    total = a[at]
    for pointer in (b, c, d, e, f, g, h, i):
        total = total + pointer[at]
    out[at] = total


@kernel
def store_numbers(
    k: Builder, a: U32, b: U64, c: I64, d: F32, e: Bool, integers: Pointer[U64], real: Pointer[F32]
) -> None:
    """Stores each of its numbers."""
    from quod.kernel import u64

    with k.if_(k.global_id() == 0):
        integers[0], integers[1], integers[2] = a.cast(u64), b, c.cast(u64)
        integers[3] = e.cast(u64)
        real[0] = d


def run_words(device: WebGpuDevice, definition: KernelDefinition, *arguments: object) -> None:
    device.launch(device.compile(definition), 1, *arguments)  # type: ignore[arg-type]


# --- launches


def test_numbers_reach_the_kernel(webgpu_device: WebGpuDevice) -> None:
    integers, real = np.zeros(4, np.uint64), np.zeros(1, np.float32)
    for row in [
        (2**32 - 1, 2**64 - 1, -(2**63), 1.5, True),
        (np.uint8(7), np.uint64(1 << 32), np.int64(-1), np.float32(0.25), np.False_),
        (0, 0, 2**63 - 1, -3, False),
    ]:
        run_words(webgpu_device, store_numbers, *row, integers, real)
        assert integers.tolist() == [int(row[0]), int(row[1]), int(row[2]) % 2**64, int(row[4])]
        assert real[0] == row[3]
    with pytest.raises(DeviceError, match="which u32 cannot hold"):
        run_words(webgpu_device, store_numbers, 1 << 32, 0, 0, 0.0, False, integers, real)


@pytest.mark.parametrize("count", [1, 65_535, 65_536, 131_071, 200_003])
def test_every_workgroup_runs_once(webgpu_device: WebGpuDevice, count: int) -> None:
    compiled = webgpu_device.compile(count_groups, lanes=1)
    out = np.zeros(count + 8, np.uint32)
    webgpu_device.launch(compiled, count, count + 8, out)
    assert (out[:count] == 1).all()
    # Of the grid's last row some workgroups are above the count: they must do nothing.
    assert (out[count:] == 0).all()


def test_grid_size_is_close_to_the_launch() -> None:
    assert grid(0, 65_535) == (0, 1)
    assert grid(65_536, 65_535) == (32_768, 2)
    for groups in (1, 65_535, 65_537, 1_000_003, (1 << 31) - 1):
        x, y = grid(groups, 65_535)
        assert x <= 65_535
        assert y <= 65_535
        assert groups <= x * y < groups + y
    with pytest.raises(DeviceError, match="exceeds the adapter's limit"):
        grid(1 << 31, 65_535)


def test_the_number_of_workgroups_is_checked(webgpu_device: WebGpuDevice) -> None:
    compiled = webgpu_device.compile(kernels.increment)
    for groups in (-1, 1 << 31):
        with pytest.raises(DeviceError, match=f"launched with {groups} workgroups"):
            webgpu_device.launch(compiled, groups, 0, np.zeros(8, np.uint32))


def test_one_buffer_as_two_arguments(webgpu_device: WebGpuDevice) -> None:
    memory = webgpu_device.upload(np.arange(64, dtype=np.uint32))
    compiled = webgpu_device.compile(kernels.scale)
    webgpu_device.launch(compiled, 1, 64, 5, memory, memory)
    out = np.zeros(64, np.uint32)
    webgpu_device.download(memory, out)
    assert (out == 5 * np.arange(64)).all()


@pytest.mark.parametrize(("start", "to"), [(0, 128), (4, 4096), (252, 1000), (2000, 36)])
def test_memory_may_begin_at_any_word(webgpu_device: WebGpuDevice, start: int, to: int) -> None:
    data = np.random.default_rng(start).integers(0, 1 << 32, 2048, np.uint32)
    memory = webgpu_device.upload(data)
    compiled = webgpu_device.compile(kernels.scale)
    source, target = (memory.slice(at, at + 128) for at in (start, to))
    webgpu_device.launch(compiled, 1, 32, 3, source, target)
    expected = data.copy()
    expected[to // 4 : to // 4 + 32] = 3 * data[start // 4 : start // 4 + 32]
    out = np.zeros_like(data)
    webgpu_device.download(memory, out)
    assert (out == expected).all()
    with pytest.raises(DeviceError, match="not a multiple of 4"):
        webgpu_device.launch(compiled, 1, 32, 3, memory.slice(2, 130), target)


def test_more_pointers_than_bindings(webgpu_device: WebGpuDevice) -> None:
    device = webgpu_device
    compiled = device.compile(sum_of_ten)
    data = np.arange(640, dtype=np.uint32)
    memory = device.upload(data)
    pieces = [memory.slice(256 * at, 256 * at + 256) for at in range(10)]
    device.launch(compiled, 1, *pieces)
    out = np.zeros(64, np.uint32)
    device.download(pieces[9], out)
    assert (out == data[:576].reshape(9, 64).sum(axis=0)).all()
    apart = [device.allocate(256) for _ in range(10)]
    with pytest.raises(DeviceError, match=r"kernel sum_of_ten takes 10 pointers"):
        device.launch(compiled, 1, *apart)


def test_a_piece_above_the_limit_of_a_binding_is_refused(webgpu_device: WebGpuDevice) -> None:
    memory = webgpu_device.allocate((128 << 20) + 256)
    compiled = webgpu_device.compile(kernels.increment)
    with pytest.raises(DeviceError, match=r"kernel increment was given .*; split the work, or"):
        webgpu_device.launch(compiled, 1, 64, memory)
    webgpu_device.launch(compiled, 1, 64, memory.slice(256, memory.nbytes))
    out = np.zeros(65, np.uint32)
    webgpu_device.download(memory.slice(256, 256 + 260), out)
    assert out.tolist() == [1] * 64 + [0]


def test_a_workgroup_has_no_more_instances_than_browsers_allow(
    webgpu_device: WebGpuDevice,
) -> None:
    with pytest.raises(DeviceError, match="has 1 to 256 instances, not 512"):
        webgpu_device.compile(kernels.increment, lanes=512)


def test_missing_wgsl_features_are_kernel_errors(webgpu_device: WebGpuDevice) -> None:
    with pytest.raises(KernelError, match=r"64-bit floating point|f64"):
        webgpu_device.compile(kernels.numbers)


# --- memory


def test_addresses_are_never_used_twice(webgpu_device: WebGpuDevice) -> None:
    seen: list[tuple[int, int]] = []
    for nbytes in (0, 1, 255, 256, 257, 4096):
        buffer = webgpu_device.allocate(nbytes)
        assert buffer.address % ALIGNMENT == 0
        assert all(buffer.address > stop for _, stop in seen)
        seen.append((buffer.address, buffer.address + nbytes))


def test_unreferenced_memory_is_freed(webgpu_device: WebGpuDevice) -> None:
    webgpu_device.session.memory.destroy_unreferenced()
    gc.collect()
    webgpu_device.session.memory.destroy_unreferenced()
    before = webgpu_device.session.memory.in_use
    buffer = webgpu_device.allocate(1 << 20)
    part = buffer.slice(0, 16)
    assert webgpu_device.session.memory.in_use == before + (1 << 20)
    del buffer
    webgpu_device.session.memory.destroy_unreferenced()
    assert webgpu_device.session.memory.in_use == before + (1 << 20)
    del part
    webgpu_device.session.memory.destroy_unreferenced()
    assert webgpu_device.session.memory.in_use == before


def test_budget_and_largest_buffer_are_enforced(webgpu_device: WebGpuDevice) -> None:
    with pytest.raises(DeviceError, match=r"at most 256.0 MiB, not 256.0 MiB; split the work"):
        webgpu_device.allocate((256 << 20) + 1)
    with pytest.raises(DeviceError, match=r"number of bytes of a buffer .*, not -1"):
        webgpu_device.allocate(-1)
    small = WebGpuDevice(strength="portable", memory_budget=1 << 16)
    kept = small.allocate(1 << 15)
    with pytest.raises(DeviceError, match=r"32.0 KiB of 64.0 KiB are in use.*QUOD_WEBGPU_MEMORY"):
        small.allocate((1 << 15) + 16)
    del kept
    small.allocate(1 << 16)
    small.close()


@pytest.mark.parametrize("nbytes", [1, 3, 5, 4096, (64 << 10) + 1, (20 << 20) + 7])
def test_copies_of_any_size(webgpu_device: WebGpuDevice, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    memory = webgpu_device.upload(data)
    out = np.zeros_like(data)
    webgpu_device.download(memory, out)
    assert (out == data).all()
    for start in (1, 2, 3):
        part = np.zeros(max(0, nbytes - start), np.uint8)
        webgpu_device.download(memory.slice(min(start, nbytes), nbytes), part)
        assert (part == data[start:]).all()


def test_unaligned_uploads_are_rejected(webgpu_device: WebGpuDevice) -> None:
    memory = webgpu_device.allocate(64)
    for start, stop in ((1, 5), (0, 5), (8, 11)):
        with pytest.raises(DeviceError, match="whole 32-bit words"):
            webgpu_device.upload(np.zeros(stop - start, np.uint8), into=memory.slice(start, stop))


def test_copies_longer_than_the_staging_ring(webgpu_device: WebGpuDevice) -> None:
    data = np.random.default_rng(1).integers(0, 1 << 32, 21 << 20, np.uint32)
    memory, other = (webgpu_device.allocate(data.nbytes) for _ in range(2))
    out = np.zeros_like(data)
    stream = webgpu_device.stream().record()
    stream.upload(data, memory)
    stream.copy(memory, other)
    stream.download(other, out)
    done = stream.finish().submit().wait()
    del done
    assert (out == data).all()
    assert webgpu_device.session.uploads.nbytes <= 64 << 20
    assert webgpu_device.session.downloads.nbytes <= 64 << 20


# --- recordings


def test_fills_and_copies_within_a_buffer(webgpu_device: WebGpuDevice) -> None:
    data = np.arange(1024, dtype=np.uint32)
    memory = webgpu_device.upload(data)
    stream = webgpu_device.stream().record()
    stream.fill(memory.slice(36, 40), 0xDEADBEEF)
    stream.fill(memory.slice(400, 2000), 0)
    stream.copy(memory.slice(0, 64), memory.slice(32, 96))
    stream.fill(memory.slice(4092, 4096), 0xFFFFFFFF)
    stream.fill(memory.slice(16, 16), 1)
    out = np.zeros_like(data)
    stream.download(memory, out)
    stream.finish().submit().wait()
    expected = data.copy()
    expected[9] = 0xDEADBEEF
    expected[100:500] = 0
    expected[8:24] = expected[:16].copy()
    expected[1023] = 0xFFFFFFFF
    assert (out == expected).all()


def test_a_fill_longer_than_a_binding(webgpu_device: WebGpuDevice) -> None:
    memory = webgpu_device.allocate(200 << 20)
    stream = webgpu_device.stream().record()
    stream.fill(memory.slice(260, memory.nbytes), 7)
    ends = [np.zeros(256, np.uint32) for _ in range(3)]
    middle = 128 << 20
    for at, out in zip((0, middle - 512, memory.nbytes - 1024), ends, strict=True):
        stream.download(memory.slice(at, at + 1024), out)
    stream.finish().submit().wait()
    assert ends[0].tolist() == [0] * 65 + [7] * 191
    assert (ends[1] == 7).all()
    assert (ends[2] == 7).all()


def test_replays_upload_current_host_data(webgpu_device: WebGpuDevice) -> None:
    """The recording may itself have downloaded the data."""
    data, back = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    first, second = webgpu_device.allocate(256), webgpu_device.allocate(256)
    compiled = webgpu_device.compile(kernels.increment)
    stream = webgpu_device.stream().record()
    stream.upload(data, first)
    stream.launch(compiled, 1, 64, first)
    stream.download(first, back)
    stream.upload(back, second)
    stream.launch(compiled, 1, 64, second)
    stream.download(second, data)
    recorded = stream.finish()
    recording = recorded.recording
    idle = recorded.submit().wait()
    assert (data == np.arange(64) + 2).all()
    idle.replay(recording).submit().wait()
    assert (data == np.arange(64) + 4).all()


def long_recording(device: WebGpuDevice, rounds: int) -> tuple[object, np.ndarray]:
    memory = device.allocate(256)
    compiled = device.compile(kernels.increment)
    out = np.zeros(64, np.uint32)
    stream = device.stream().record()
    stream.fill(memory, 0)
    for number in range(rounds):
        stream.launch(compiled, 1, 64, memory, label=f"round {number}", modmuls=64)
    stream.download(memory, out)
    return stream.finish(), out


def test_long_recordings_are_submitted_in_chunks(webgpu_device: WebGpuDevice) -> None:
    recorded, out = long_recording(webgpu_device, 1000)
    before = webgpu_device.session.queue.submissions
    recorded.submit().wait()  # type: ignore[attr-defined]
    assert (out == 1000).all()
    assert 8 <= webgpu_device.session.queue.submissions - before <= 20


@pytest.mark.parametrize("way", ["clock", "no clock", "synchronous"])
def test_steps_have_times(
    webgpu_device: WebGpuDevice, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "no clock":
        monkeypatch.setattr(webgpu_device.session, "tick_nanoseconds", 0.0)
    elif webgpu_device.session.tick_nanoseconds == 0:
        pytest.skip("the adapter has no clock")
    monkeypatch.setattr(webgpu_device.session, "synchronous", way == "synchronous")
    recorded, out = long_recording(webgpu_device, 40)
    timeline = Timeline()
    with timeline.stage("whole") as work:
        recorded.submit(timeline).wait()  # type: ignore[attr-defined]
    assert (out == 40).all()
    stages = [stage for stage in timeline.rows() if stage is not work]
    assert [stage.name for stage in stages] == [
        "fill", *(f"round {number}" for number in range(40)), "download",
    ]  # fmt: skip
    slack = 50_000_000
    for stage in stages:
        assert stage.end_ns is not None
        assert work.begin_ns - slack <= stage.begin_ns <= stage.end_ns
        assert stage.parent is work
    assert sum(stage.modmuls for stage in stages) == 40 * 64
    begins = [stage.begin_ns for stage in stages]
    assert begins == sorted(begins)


# --- opening


def test_names(webgpu_device: WebGpuDevice) -> None:
    words = webgpu_device.properties.name.split()[0].lower()
    for name in ("webgpu", "webgpu:0", f"webgpu:{words}", "webgpu:portable", "webgpu:0:portable"):
        device = open_device(name, memory_budget=1 << 20)
        assert isinstance(device, WebGpuDevice)
        assert device.memory_budget == 1 << 20
        assert device.name == ("webgpu:0:portable" if name.endswith("portable") else "webgpu:0")
        device.close()
        device.close()
        with pytest.raises(DeviceError, match="was closed"):
            device.allocate(16)
    with pytest.raises(DeviceError, match="no WebGPU adapter '97'; there are webgpu:0"):
        open_device("webgpu:97")
    with pytest.raises(DeviceError, match="no WebGPU adapter 'voodoo'"):
        open_device("webgpu:voodoo")
    with pytest.raises(DeviceError, match="threads and strategy apply to the device cpu only"):
        open_device("webgpu", threads=2)


def test_portable_uses_default_webgpu_limits(webgpu_device: WebGpuDevice) -> None:
    machine = webgpu_device.machine(64)
    assert machine.target == "wgsl"
    assert not machine.has("u64")
    assert machine.has("slow_subgroup")
    assert webgpu_device.largest_buffer == 128 << 20
    assert "shader-int64" not in webgpu_device.session.gpu.features
    # Where loops are watched there is one more for that.
    watched = 1 if webgpu_device.properties.is_software else 0
    assert webgpu_device.session.gpu.limits["max-storage-buffers-per-shader-stage"] == 8 + watched


def test_limb_choice_is_cached(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    first = WebGpuDevice(strength="portable", cache=cache)
    assert not first.limbs_are_chosen
    if first.properties.is_software:
        assert first.limbs == "13:rolled"
    first.choose_limbs("15")
    assert first.machine(64).limbs == "15"
    assert first.machine(64, limbs="14").limbs == "14"
    first.close()
    second = WebGpuDevice(strength="portable", cache=cache)
    assert second.limbs_are_chosen
    assert second.limbs == "15"
    second.close()
    third = WebGpuDevice(strength="portable", cache=cache, limbs="12")
    assert third.limbs == "12"
    third.close()


def test_texts_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quod.kernel import examples

    definition = next(
        value for value in vars(examples).values() if isinstance(value, KernelDefinition)
    )
    cache = CompileCache(tmp_path)
    device = WebGpuDevice(strength="portable", cache=cache)
    text = device.compile(definition).text
    device.close()
    with monkeypatch.context() as patch:
        patch.setattr(KernelSource, "_trace", lambda self: pytest.fail("it was traced"))
        device = WebGpuDevice(strength="portable", cache=cache)
        assert device.compile(definition).text == text
        device.close()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(b"rubbish")
    device = WebGpuDevice(strength="portable", cache=cache)
    assert device.compile(definition).text == text
    device.close()


SMOKE = """
import sys
import numpy as np
from quod.device.webgpu.device import WebGpuDevice
from tests.device import kernels, test_webgpu
device = WebGpuDevice("SwiftShader", strength=sys.argv[1])
assert device.properties.is_software and not device.drops_long_loops
a, out = np.arange(1000, dtype=np.uint32), np.zeros(1000, np.uint32)
device.launch(device.compile(kernels.scale), 16, 1000, 7, a, out)
assert (out == 7 * a).all()
for test in ("test_fills_and_copies_within_a_buffer", "test_one_buffer_as_two_arguments",
             "test_long_recordings_are_submitted_in_chunks", "test_numbers_reach_the_kernel"):
    if sys.argv[1] == "portable" or "numbers" not in test:
        getattr(test_webgpu, test)(device)
device.close()
print("done")
"""


@pytest.mark.parametrize("strength", one_and_others(["portable", "extended"]))
def test_swiftshader(strength: str) -> None:
    if not SWIFTSHADER.exists():
        pytest.skip("needs the SwiftShader of Debian's chromium")
    environment = os.environ | {"VK_ICD_FILENAMES": str(SWIFTSHADER)}
    done = subprocess.run(
        [sys.executable, "-c", SMOKE, strength], env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


# --- loops that a driver ends


@kernel
def count_rounds(k: Builder, outer: U32, inner: U32, x: Pointer[U32]) -> None:
    """x[0] = outer * inner, in two loops."""
    step = x[1]
    with k.range(0, outer, carry=k.constant(0, types.u32)) as outer_loop:
        with k.range(0, inner, carry=outer_loop.carried) as inner_loop:
            inner_loop.next(inner_loop.carried + step)
        outer_loop.next(inner_loop.results)
    x[0] = outer_loop.results


@kernel
def count_while(k: Builder, rounds: U32, unused: U32, x: Pointer[U32]) -> None:
    """x[0] = rounds, in a loop that asks before each."""
    with k.while_((k.constant(0, types.u32),)) as loop:
        (done,) = loop.carried
        loop.check(done < rounds)
        loop.next((done + x[1],))
    x[0] = loop.results[0]


@kernel
def count_by_calls(k: Builder, rounds: U32, unused: U32, x: Pointer[U32]) -> None:
    """x[0] = rounds, where the loop's condition is a branch of a call."""
    with k.while_((k.constant(0, types.u32),)) as loop:
        (done,) = loop.carried
        is_less = k.call("is_less", lambda _, a, b: a < b, done, rounds)
        with k.if_(is_less) as branch:
            branch.yield_(done < rounds)
        with branch.otherwise():
            branch.yield_(k.constant(False, types.bool_))
        loop.check(branch.results)
        loop.next((done + x[1],))
    x[0] = loop.results[0]


@kernel
def count_in_memory(k: Builder, rounds: U32, x: Pointer[U32]) -> None:
    """x[0] = rounds, in a loop that stores before it asks."""
    with k.while_((k.constant(0, types.u32),)) as loop:
        (done,) = loop.carried
        x[0] = done
        loop.check(done < rounds)
        loop.next((done + x[1],))


@pytest.mark.parametrize(
    "definition", [count_rounds, count_while, count_by_calls], ids=lambda kernel: kernel.name
)
def test_early_loop_exit_is_an_error(
    webgpu_device: WebGpuDevice, definition: KernelDefinition
) -> None:
    """Mesa's lavapipe ends the loops of an instance after 65,535 rounds of all of them."""
    compiled = webgpu_device.compile(definition)

    def run(outer: int, inner: int) -> int:
        x = np.array([0, 1], np.uint32)
        webgpu_device.launch(compiled, 1, outer, inner, x)
        return int(x[0])

    is_nested = definition is count_rounds
    long = [(70_000, 1), (3, 30_000), (300, 300)] if is_nested else [(70_000, 0)]
    for outer, inner in long:
        if webgpu_device.drops_long_loops:
            with pytest.raises(DeviceError, match=r"kernel count_\w+ .* ended a loop early"):
                run(outer, inner)
        else:
            assert run(outer, inner) == outer * (inner if is_nested else 1)
        # It is that work alone that was lost.
        assert run(200, 300) == (60_000 if is_nested else 200)


def test_unwatchable_loops_are_rejected(webgpu_device: WebGpuDevice) -> None:
    if webgpu_device.drops_long_loops:
        with pytest.raises(KernelError, match=r"test_webgpu.py:\d+: what a while loop does before"):
            webgpu_device.compile(count_in_memory)
        return
    x = np.array([0, 1], np.uint32)
    webgpu_device.launch(webgpu_device.compile(count_in_memory), 1, 70_000, x)
    assert x[0] == 70_000


def test_ended_loops_in_recorded_work(webgpu_device: WebGpuDevice) -> None:
    recording = webgpu_device.stream("loops").record()
    memory = webgpu_device.upload(np.array([0, 1], np.uint32))
    recording.launch(webgpu_device.compile(count_rounds), 1, 70_000, 1, memory, label="rounds")
    recorded = recording.finish()
    if not webgpu_device.drops_long_loops:
        recorded.submit().wait()
        return
    with pytest.raises(DeviceError, match=r"rounds .* ended a loop early without an error"):
        recorded.submit().wait()


def test_loops_are_watched_only_where_a_driver_ends_them() -> None:
    def text(target: WgslTarget) -> str:
        machine = target.machine(64)
        return wgsl.translate(count_rounds.trace(machine), machine, dialect="naga").text

    assert text(WgslTarget(watched_loops=True)).count("cut_short = true") == 2
    assert "watch" not in text(PORTABLE)
    assert "cut_short" not in text(PORTABLE)


def test_interrupted_upload_leaves_the_ring_unchanged(
    webgpu_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.arange(1 << 18, dtype=np.uint32)
    buffer = webgpu_device.upload(data)
    before = webgpu_device.session.uploads.nbytes

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(webgpu_device.session.uploads, "write", interrupted)
        for _ in range(100):
            with pytest.raises(KeyboardInterrupt):
                webgpu_device.upload(data, into=buffer)
    assert webgpu_device.session.uploads.nbytes <= before
    webgpu_device.upload(data[::-1].copy(), into=buffer)
    downloaded = np.zeros_like(data)
    webgpu_device.download(buffer, downloaded)
    assert np.array_equal(downloaded, data[::-1])
