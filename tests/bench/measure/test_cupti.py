"""Kernels' intervals from CUPTI, by a library that lays records out as documented."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import pytest

from quod.bench.measure.cupti import KernelRecorder, load_cupti
from quod.cli import entry
from quod.errors import DeviceError, InputError


class FakeCupti:
    """Fills a buffer when it is flushed; `records` are of kind, kind of copy, begin and end."""

    def __init__(self, *records: tuple[int, int, int, int]) -> None:
        self.records, self.enabled = records, set[int]()
        self.status = 0
        self.at = 0
        self.last = 0

    def cuptiActivityRegisterCallbacks(self, request: Any, complete: Any) -> int:
        self.request, self.complete = request, complete
        return self.status

    def cuptiActivityEnable(self, kind: int) -> int:
        assert kind not in self.enabled
        self.enabled.add(kind)
        return 0

    def cuptiActivityDisable(self, kind: int) -> int:
        self.enabled.remove(kind)
        return 0

    def cuptiGetTimestamp(self, out: Any) -> int:
        out._obj.value = 1000
        return 0

    def cuptiActivityFlushAll(self, flag: int) -> int:
        for first in range(0, len(self.records), 2):
            some = self.records[first : first + 2]
            buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(9)
            self.request(ctypes.pointer(buffer), ctypes.pointer(size), ctypes.pointer(most))
            assert buffer.value is not None
            assert (buffer.value % 8, most.value) == (0, 0)
            data = b"".join(struct.pack("<IB11xQQ8x", *record) for record in some)
            assert len(data) <= size.value
            ctypes.memmove(buffer.value, data, len(data))
            self.at, self.last = buffer.value, buffer.value + len(data)
            self.complete(None, 0, buffer.value, size.value, len(data))
        return 0

    def cuptiActivityGetNextRecord(self, buffer: Any, valid: Any, record: Any) -> int:
        if self.at == self.last:
            return 12
        record._obj.value, self.at = self.at, self.at + 40
        return 0


def test_kernels_and_copies_are_reported_in_wall_clock_time() -> None:
    # Copies within a device and other records are in the buffers too.
    fake = FakeCupti(
        (10, 0, 100, 200), (1, 8, 5, 6), (10, 0, 150, 900), (1, 1, 50, 120), (2, 1, 7, 8),
        (1, 2, 800, 1000),
    )  # fmt: skip
    recorder = KernelRecorder(fake, lambda: 5_000_001_000)
    for _ in range(2):
        recorder.begin()
        assert fake.enabled == {1, 10}
        ran = recorder.end()
        assert fake.enabled == set()
        for spans, wanted in (
            (ran.kernels, [(100, 200), (150, 900)]), (ran.copies, [(50, 120), (800, 1000)]),
        ):  # fmt: skip
            assert spans == [
                (pytest.approx(5 + 1e-9 * begin), pytest.approx(5 + 1e-9 * end))
                for begin, end in wanted
            ]
    assert recorder._buffers == {}


def test_cupti_errors_are_reported() -> None:
    fake = FakeCupti()
    fake.status = 15
    with pytest.raises(DeviceError, match="cuptiActivityRegisterCallbacks gives 15"):
        KernelRecorder(fake)


def test_missing_cupti_library_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("quod.bench.measure.cupti._PLACES", ("nvidia/*/lib/libcupti.so.*",))
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libcupti.so.13").write_bytes(b"no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="nvidia-cuda-cupti"):
        load_cupti()


def test_cupti_option_requires_cuda_kernels_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "serve-pipeline", "--cupti"]) == 2
    assert "CUDA kernels of this process" in capsys.readouterr().err
