"""Benchmarks of tensor functions: many sequential calls on different memory in a submission.

A GPU's cache would hold the tensors of one call, and a launch takes longer than a small call. So
calls cycle through more tensors than any cache holds, and all calls are one graph; so are PyTorch's
(`quod.bench.peers.tensors`). The first result is checked against float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.tensors import peer_of
from quod.bench.tensors.operations import OPERATIONS, Operation, Shape
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.recording import Launch, Recording, Step
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.frozen import replace
from quod.kernel import e4m3
from quod.kernel.ops import float8

Array = NDArray[Any]

_BEYOND_CACHES = 1 << 28
"""A number of bytes larger than any cache."""
_MAX_SETS = 256
"""The maximum number of tensor sets through which calls cycle."""
_MOVED, _MIN_CALLS, _MAX_CALLS = 1 << 30, 16, 1024
"""The bytes moved and the bounds on calls of a GPU submission, to make its overhead negligible."""

_POOL = (1 << 22) - 3
"""The size of the pool of random numbers; not a power of two, so that rows differ."""
_CHECKED_ROWS = 64

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}
"""The NumPy types of elements; types without one are stored as bits."""
_RESULTS = {**DTYPES, "tf32": np.float32, "int8": np.int32, "e4m3": np.uint16}
"""The NumPy types of results, which 8-bit products have wider than their operands."""
_UNITS = {
    "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "tf32": 2.0**-23, "int8": 0.0,
    "e4m3": 2.0**-7,
}  # fmt: skip
"""The unit in the last place of a result of about 1."""
_SMALLEST = {
    "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133, "tf32": 2.0**-149, "int8": 0.0,
    "e4m3": 2.0**-133,
}  # fmt: skip
"""The smallest positive number of the results' type."""


def cases(
    device: str, against: str | None, subject: str, kinds: list[str] | None, shapes: list[str],
    dtype: str, threads: int | None,
) -> Iterator[Case]:  # fmt: skip
    """Yield a case for each kind and shape; raises InputError for an unknown one."""
    rows = OPERATIONS[subject]
    for kind in kinds or []:
        if kind not in rows:
            raise InputError(
                f"{kind!r} is not a kind of {subject}; choose one of {', '.join(rows)}"
            )
    if dtype not in DTYPES:
        raise InputError(f"{dtype!r} is not a type of tensors; choose one of {', '.join(DTYPES)}")
    opened_device = open_device(device, threads=threads)
    for kind in kinds or list(rows)[:1]:
        for text in shapes:
            shape = _shape(text, rows[kind].axes)
            fixed_dtype = rows[kind].dtype
            if fixed_dtype and dtype != "f32":
                raise InputError(f"the kind {kind} always computes in {fixed_dtype}; omit --dtype")
            yield _case(opened_device, against, kind, rows[kind], shape, fixed_dtype or dtype)


def _shape(text: str, axes: int) -> Shape:
    """Parse sizes such as 8x8; one size stands for all axes."""
    words = text.split("x")
    if not all(word.isdecimal() and int(word) for word in words) or len(words) not in (1, axes):
        raise InputError(f"--shape must be {axes} sizes such as {'x'.join('8' * axes)}, not {text}")
    sizes = tuple(map(int, words))
    return sizes * axes if len(sizes) == 1 else sizes


def _case(
    device: AnyDevice, against: str | None, kind: str, operation: Operation, shape: Shape,
    dtype: str,
) -> Case:  # fmt: skip
    """Prepare the calls of one kind and shape, and check the first result."""
    output_shape = operation.output(shape)
    generator = np.random.default_rng(math.prod(shape))
    drawn = _Random(generator, shape, dtype)
    tensor_sets = [drawn.of(operation)]
    # Filled with 0xFF, so that elements that no kernel stores are wrong.
    unwritten = np.full(math.prod(output_shape) * drawn.size, 0xFF, np.uint8).view(_RESULTS[dtype])
    stored = [tensor_sets[0][at] for at in operation.stored] or [unwritten]
    moved_bytes = sum(array.nbytes for array in (*tensor_sets[0], *stored))
    set_count = min(_MAX_SETS, -(-_BEYOND_CACHES // moved_bytes))
    tensor_sets += [drawn.of(operation) for _ in range(set_count - 1)]
    output_arrays = [] if operation.stored else [unwritten.reshape(output_shape)]
    # Copied, as results must not overwrite the peer's data, on a CPU either.
    memory = [
        [device.upload(array.copy()) for array in (*arrays, *output_arrays)]
        for arrays in tensor_sets
    ]
    check = _checked(operation, tensor_sets[0], output_shape, dtype)

    def call(call_device: Any, *tensors: Any) -> None:
        if operation.stored:
            operation.run(call_device, *tensors)
        else:
            operation.run(call_device, *tensors[:-1], out=tensors[-1])

    call(device, *memory[0])
    output = np.empty(output_shape, _RESULTS[dtype])
    device.download(memory[0][operation.stored[0] if operation.stored else -1], output)
    check("this result", output, 1)
    calls = set_count
    if not in_host_memory(device):
        calls *= -(-min(_MAX_CALLS, max(_MIN_CALLS, _MOVED // moved_bytes)) // set_count)
    # A multiply-add is two operations, hence the half of them below.
    operations = operation.flop(shape)
    run = _recorded(device, call, memory, calls, (moved_bytes, operations // 2))
    parameters: dict[str, Parameter] = {
        "kind": kind, "shape": "x".join(map(str, shape)), "dtype": dtype,
        "MB": round(moved_bytes / 1e6, 3), "calls": calls,
    }  # fmt: skip
    if operations:
        parameters["GFLOP"] = round(operations / 1e9, 3)
    if in_host_memory(device):
        parameters["threads"] = device.threads
    peer = peer_of(
        against, device, operation, tensor_sets, calls, dtype, (moved_bytes, operations), check
    )
    return Case(
        parameters, run, "us/call", operations=calls, traced=run, peers=peer.runs,
        peer_note=peer.note, absent=peer.absent,
    )  # fmt: skip


class _Random:
    """Random tensors for calls of a shape."""

    def __init__(self, generator: np.random.Generator, shape: Shape, dtype: str) -> None:
        self._generator, self._classes = generator, shape[-1]
        self._shape = shape
        normal = generator.standard_normal(_POOL, np.float32)
        if dtype == "int8":
            pool = generator.integers(-128, 128, _POOL, np.int8)
        elif dtype == "e4m3":
            pool = float8.nearest(e4m3, normal)
        else:
            pool = of_dtype(normal, dtype)
        self._pools = {"numbers": pool, "f32": normal, "squares": normal * normal}
        self.size = np.dtype(_RESULTS[dtype]).itemsize

    def of(self, operation: Operation) -> list[Array]:
        """Draw the tensors of one call."""
        shapes = operation.inputs(self._shape)
        kinds = operation.kinds or ("numbers",) * len(shapes)
        return [self._tensor(*kind_and_shape) for kind_and_shape in zip(kinds, shapes, strict=True)]

    def _tensor(self, kind: str, tensor_shape: Shape) -> Array:
        """Draw a tensor of a kind; see `Operation.kinds`."""
        if kind == "classes":
            return self._generator.integers(self._classes, size=tensor_shape, dtype=np.int32)
        if kind == "order":
            return (
                self._generator.permutation(math.prod(tensor_shape))
                .astype(np.int32)
                .reshape(tensor_shape)
            )
        if kind == "lengths":
            return np.full(tensor_shape, self._shape[-2], np.int32)
        pool, first = self._pools[kind], -int(self._generator.integers(_POOL)) % _POOL
        if math.prod(tensor_shape) <= _POOL:
            # A view of the rolled array would keep all of it.
            return pool.take(
                np.arange(first, first + math.prod(tensor_shape)), mode="wrap"
            ).reshape(tensor_shape)
        return np.resize(np.roll(pool, -first), tensor_shape)


class _Float64Slices:
    """An array whose slices are converted to float64."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, part: Any) -> Array:
        return numbers(self._array[part])

    @property
    def shape(self) -> Shape:
        return self._array.shape


def of_dtype(normal: NDArray[np.float32], dtype: str) -> Array:
    """Convert f32 numbers to a type; bf16 as truncated bits."""
    if dtype == "bf16":
        return (normal.view(np.uint32) >> 16).astype(np.uint16)
    return normal.astype(_RESULTS[dtype])


def numbers(array: Array) -> Array:
    """Convert elements to float64; bf16 and e4m3 from their bits."""
    if array.dtype == np.uint8:
        array = float8.values_of(e4m3, array)
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float64)


Check = Callable[[str, Array, float], None]


def _checked(operation: Operation, data: list[Array], shape: Shape, dtype: str) -> Check:
    """Return a function that raises QuodError unless sampled rows of a result are right.

    Its last argument is a factor on the error bound, for peers.
    """
    count = math.prod(shape[:-1])
    random = np.random.default_rng(1).integers(count, size=_CHECKED_ROWS)
    rows = np.unique([0, count - 1, *random])
    doubles = [_Float64Slices(array) for array in data]
    exact = operation.exact(rows, *doubles)
    bound = operation.error(rows, *doubles) * 2.0**-22
    bound = bound + 0.51 * _UNITS[dtype] * np.abs(exact) + 2 * _SMALLEST[dtype]
    if dtype in ("f16", "bf16"):
        bound = bound + 0.51 * _UNITS[dtype] * operation.between(rows, *doubles)

    def check(what: str, actual: Array, factor: float) -> None:
        error = np.abs(numbers(actual.reshape(count, -1)[rows]) - exact)
        if not (error <= bound * factor).all():
            raise QuodError(
                f"{what} is off by up to {error.max():.3g} of {np.abs(exact).max():.3g}, which is "
                "more than rounding explains; please report it"
            )

    return check


class _Recorder:
    """A device that collects launches and delegates everything else."""

    def __init__(self, device: AnyDevice, stream: RecordingStream) -> None:
        self._device, self._stream = device, stream
        self._launches: list[tuple[Any, int, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        self._launches.append((kernel, groups, arguments))

    def record(self, moved: int, multiply_adds: int) -> None:
        """Record the collected launches; the largest one is credited with all work."""
        largest = max(groups for _, groups, _ in self._launches)
        for kernel, groups, arguments in self._launches:
            work = (moved, multiply_adds) if groups == largest else (0, 0)
            self._stream.launch(kernel, groups, *arguments, bytes=work[0], multiply_adds=work[1])
            largest = -1 if groups == largest else largest
        self._launches.clear()


def _after_previous(index: int, step: Step) -> Step:
    """Order a step after the one before it, overlapping it if possible."""
    previous = (index - 1,) if index else ()
    if not isinstance(step, Launch):
        return replace(step, after=previous)
    needed = set(step.after) - set(step.overlapped)
    may_overlap = step.kernel.early is not None and step.groups and needed.isdisjoint(previous)
    return replace(step, after=previous, overlapped=previous if may_overlap else ())


def _recorded(
    device: AnyDevice, call: Callable[..., None], memory: list[list[Any]], calls: int,
    work: tuple[int, int],
) -> Callable[..., None]:  # fmt: skip
    """Record `calls` sequential calls as one submission, as in a model."""
    stream = device.stream("tensors").record()
    recorder = _Recorder(device, stream)
    for index in range(calls):
        call(cast(AnyDevice, recorder), *memory[index % len(memory)])
        recorder.record(*work)
    steps = [
        _after_previous(index, step) for index, step in enumerate(stream.finish().recording.steps)
    ]
    recorded = Recording(device.name, tuple(steps), device.space)

    def run(timeline: Timeline | None = None) -> None:
        device.stream("tensors").replay(recorded).run(timeline)

    return run
