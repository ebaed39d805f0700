"""Peers of tensor functions, with the same data and the same number of calls.

PyTorch calls are a CUDA graph on a GPU, in f32 without TF32, and eager calls on a CPU. NumPy uses
as many threads as Quod. "copy" moves as many bytes within the device's memory; "limit" is the time
at the limits of memory or arithmetic units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.bench.measure.ceilings import cpu_limits
from quod.bench.measure.copies import copied
from quod.bench.measure.harness import Seconds
from quod.bench.tensors.operations import Operation
from quod.device.protocol import AnyDevice, in_host_memory
from quod.extras import installation

Array = NDArray[Any]

_PEER_ERROR_FACTOR = 64
"""The factor on Quod's error bound for peers, which round in their own way."""


@dataclass(frozen=True)
class Peer:
    """The runs of a peer by name, a note on how it runs, or why it is absent."""

    runs: dict[str, Callable[[], object]] = field(default_factory=dict)
    note: str = ""
    absent: dict[str, str] = field(default_factory=dict)


def peer_of(
    name: str | None, device: AnyDevice, operation: Operation, data: list[list[Array]], calls: int,
    dtype: str, work: tuple[int, int], check: Callable[[str, Array, float], None],
) -> Peer:  # fmt: skip
    """Create the peer of that name, empty for an unknown name.

    data: the tensors of each distinct call; the calls cycle through them.
    work: the bytes that a call moves, and its arithmetic operations.
    check: raises QuodError for a wrong result; takes its description, the result, and a factor on
        the error bound.
    """
    if name == "torch":
        return _torch(device, operation, data, calls, dtype, check)
    if name == "numpy":
        return _numpy(device, operation, data, calls, dtype, check)
    if name == "copy":
        return Peer({"copy": copied(device, work[0] * calls)}, "moves as many bytes")
    return _limit(device, calls, dtype, work) if name == "limit" else Peer()


def _torch(
    device: AnyDevice, operation: Operation, data: list[list[Array]], calls: int, dtype: str,
    check: Callable[[str, Array, float], None],
) -> Peer:  # fmt: skip
    """Create the peer torch, whose first result is checked."""
    if operation.f32_alone and dtype != "f32":
        return Peer(absent={"torch": operation.f32_alone})
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return Peer(absent={"torch": "PyTorch is not installed (https://pytorch.org)"})
    on_processor = in_host_memory(device)
    if not on_processor and not torch.cuda.is_available():
        return Peer(absent={"torch": "PyTorch found no GPU"})
    torch.backends.cuda.matmul.allow_tf32 = False

    def tensor(array: Array) -> Any:
        torch_tensor = torch.from_numpy(array).to("cpu" if on_processor else "cuda")
        if array.dtype == np.int32:
            return torch_tensor.long()
        if array.dtype == np.uint8:
            return torch_tensor.view(torch.float8_e4m3fn)
        return torch_tensor.view(torch.bfloat16) if array.dtype == np.uint16 else torch_tensor

    tensors = [[tensor(array) for array in arrays] for arrays in data]
    try:
        torch_result = operation.torch(torch, *tensors[0]).cpu()
    except (AttributeError, RuntimeError, TypeError) as error:
        return Peer(absent={"torch": f"it does not support these tensors ({error})"})
    bits = torch_result.view(torch.uint16) if dtype in ("bf16", "e4m3") else torch_result
    check("PyTorch's result", bits.numpy(), _PEER_ERROR_FACTOR)

    def all_calls() -> list[Any]:
        # All results are kept, so that each is written to memory of its own.
        results = [operation.torch(torch, *operands) for operands in tensors]
        for operands in islice(cycle(tensors), calls - len(tensors)):
            operation.torch(torch, *operands)
        return results

    version = f"PyTorch {torch.__version__}"
    if on_processor:
        assert in_host_memory(device)
        torch.set_num_threads(device.threads)
        return Peer({"torch": all_calls}, f"{version} on {device.threads} threads")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = all_calls()

    def replay(_kept: object = results) -> None:
        graph.replay()
        torch.cuda.synchronize()

    return Peer({"torch": replay}, f"{version}, one CUDA graph")


def _numpy(
    device: AnyDevice, operation: Operation, data: list[list[Array]], calls: int, dtype: str,
    check: Callable[[str, Array, float], None],
) -> Peer:  # fmt: skip
    """Create the peer numpy, whose first result is checked."""
    if dtype != "f32" or not operation.numpy or not in_host_memory(device):
        return Peer(
            absent={"numpy": "it is a peer only on a CPU, in f32, for the functions that it has"}
        )
    try:
        threadpoolctl: Any = import_module("threadpoolctl")
    except ImportError:
        return Peer(absent={"numpy": f"threadpoolctl is not installed: {installation('bench')}"})
    threads = device.threads
    all_rows = slice(None)
    check("NumPy's result", operation.exact(all_rows, *data[0]), _PEER_ERROR_FACTOR)

    def run() -> None:
        with threadpoolctl.threadpool_limits(threads):
            for operands in islice(cycle(data), calls):
                operation.exact(all_rows, *operands)

    return Peer({"numpy": run}, _numpy_description(threadpoolctl, operation, threads))


def _numpy_description(threadpoolctl: Any, operation: Operation, threads: int) -> str:
    """Describe NumPy's BLAS and threads; functions other than products use one thread."""
    if not operation.flop((1,) * operation.axes):
        return f"{np.__version__} on 1 thread"
    blas = next(
        library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"
    )
    kernel = f"{blas['internal_api']} {blas['version']} {blas.get('architecture', '')}".strip()
    return f"{kernel} on {threads} thread{'s' * (threads > 1)}"


def _limit(device: AnyDevice, calls: int, dtype: str, work: tuple[int, int]) -> Peer:
    """Create the peer limit: the time that memory or arithmetic takes at its limit."""
    limits = cpu_limits(device) if in_host_memory(device) else device.throughput_limits()
    if limits is None:
        return Peer(absent={"limit": f"the limits of {device.name} are unknown"})
    moved_bytes, operations = work
    seconds = moved_bytes / limits.bytes_per_second
    if operations:
        rate = limits.flop_per_second.get(dtype)
        if rate is None:
            reason = f"the throughput of {device.name} in {dtype} is unknown"
            return Peer(absent={"limit": reason})
        seconds = max(seconds, operations / rate)
    return Peer({"limit": lambda: Seconds(seconds * calls)}, limits.source)
