"""CUDA graphs of Quod and of torch on one GPU, each repeating the same work."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from time import perf_counter
from typing import Any

from quod.device.protocol import AnyDevice

MOST = 1000
"""The number of repetitions of the work in a graph."""


def times(seconds: float, graph: float) -> int:
    """Choose the repetitions of work in a graph for a given duration in seconds."""
    return max(1, min(MOST, round(graph / seconds)))


def torch_with_gpu() -> Any:
    """Return torch, or None if torch or its GPU is missing."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


def replayed(device: AnyDevice, launch: Callable[[Any], None], count: int) -> Callable[[], float]:
    """Replay a graph with repetitions of the work of `launch`; return the seconds of one."""
    recording = device.stream("bench").record()
    for _ in range(count):
        launch(recording)
    recorded = recording.finish().recording

    def run() -> float:
        begin = perf_counter()
        device.stream("bench").replay(recorded).run()
        return (perf_counter() - begin) / count

    run()
    return run


def replayed_by_torch(torch: Any, work: Callable[[], Any], count: int) -> Callable[[], float]:
    """Replay a graph of torch's work, as `replayed` does for Quod."""
    work()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(count):
            work()

    def run() -> float:
        torch.cuda.synchronize()
        begin = perf_counter()
        captured.replay()
        torch.cuda.synchronize()
        return (perf_counter() - begin) / count

    run()
    return run
