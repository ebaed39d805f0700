"""The implementation of `quod kernel bench`: times a kernel with arguments of given sizes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quod.catalogue import find
from quod.cli.display.terminal import show_json, show_table
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import fields_of, frozen
from quod.kernel.builder.structs import with_structs, without_structs
from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.launcher import Launcher
from quod.kernel.ops.semantics import NUMPY_TYPES
from quod.validation import whole_number

_MAX_RUNS = 1000


@frozen
class Timing:
    """The duration of a launch: the median and minimum in seconds.

    bytes: the bytes of its arrays, counting stored arrays twice.
    """

    kernel: str
    device: str
    workgroup: int
    runs: int
    median_seconds: float
    least_seconds: float
    bytes: int


def bench(
    name: str, sizes: Sequence[str], device_name: str, *, zeros: bool, seconds: float
) -> Timing:
    """Launch a kernel repeatedly for at least `seconds` seconds; return its timing.

    name: a name for `find`.
    sizes: ``parameter=number`` for each parameter, for an array its number of elements. A field of
        a struct is ``parameter_field``.
    Raises InputError for unknown or missing parameters.
    """
    kernel = find(name)
    numbers = _numbers(name, without_structs(kernel.definition.parameters), sizes)
    with open_device(device_name) as device:
        run: Launcher[Any] = kernel.definition.on(device, **kernel.static)
        generator = None if zeros else np.random.default_rng(1)
        arrays = {
            parameter: _array(
                type_,
                whole_number(f"{parameter}, a number of elements,", numbers[parameter], 0),
                generator,
            )
            for parameter, type_ in without_structs(run.kernel.parameters).items()
            if isinstance(type_, PointerType)
        }
        values = iter([
            device.upload(arrays[parameter]) if parameter in arrays else number
            for parameter, number in numbers.items()
        ])  # fmt: skip
        arguments = with_structs(run.kernel.parameters, values)
        times = _times(device, run, arguments, seconds)
        slots = list(run.kernel.slots)
        stored_slots = {slots[index] for index in run.kernel.stored}
        nbytes = sum(a.nbytes * (1 + (key in stored_slots)) for key, a in arrays.items())
        return Timing(
            name, device.name, run.kernel.lanes, len(times), statistics.median(times), min(times),
            nbytes,
        )  # fmt: skip


def _numbers(
    name: str, parameters: Mapping[str, ParameterType], sizes: Sequence[str]
) -> dict[str, int | float]:
    values: dict[str, int | float] = {}
    for text in sizes:
        parameter, _, number = text.partition("=")
        if parameter in values:
            raise InputError(f"{text!r} is the second value of {parameter}; give one value")
        if parameter not in parameters:
            raise InputError(
                f"{text!r} is not a parameter of {name}; it has {', '.join(parameters)}"
            )
        try:
            values[parameter] = int(number, 0) if "." not in number else float(number)
        except ValueError:
            raise InputError(f"{text!r} has no number; write {parameter}=1000") from None
    missing = [
        f"{parameter}={'ELEMENTS' if isinstance(type_, PointerType) else 'NUMBER'}"
        for parameter, type_ in parameters.items()
        if parameter not in values
    ]
    if missing:
        raise InputError(f"{name} also needs {' '.join(missing)}")
    for parameter, type_ in parameters.items():
        if isinstance(type_, Type) and type_.kind == "unsigned":
            limit = (1 << type_.bits) - 1
            values[parameter] = whole_number(parameter, values[parameter], 0, limit)
    return {parameter: values[parameter] for parameter in parameters}


def _array(pointer: PointerType, count: int, generator: np.random.Generator | None) -> Any:
    element: Type = pointer.element
    dtype = np.dtype(NUMPY_TYPES[element])
    if generator is None:
        return np.zeros(count, dtype)
    if element is types.bf16:
        return (generator.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(
            dtype
        )
    if element.kind == "float":
        return generator.standard_normal(count).astype(dtype)
    if element.kind == "bool":
        return generator.integers(0, 2, count).astype(dtype)
    return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype).copy()


def _times(
    device: AnyDevice, run: Launcher[Any], arguments: list[Any], seconds: float
) -> list[float]:
    """Return the seconds of each launch after a warm-up launch."""
    run(*arguments)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and len(times) < _MAX_RUNS):
        begin = time.perf_counter()
        run(*arguments)
        times.append(time.perf_counter() - begin)
    return times


def print_timing(timing: Timing) -> None:
    """Print a timing as a table on standard output."""
    rate = timing.bytes / timing.median_seconds / 1e9
    rows = [
        ("kernel", f"{timing.kernel}, workgroups of {timing.workgroup}, on {timing.device}"),
        ("median", f"{1e3 * timing.median_seconds:.4g} ms of {timing.runs} launches"),
        ("least", f"{1e3 * timing.least_seconds:.4g} ms"),
        ("arrays", f"{timing.bytes:,} bytes, {rate:.4g} GB/s"),
    ]
    show_table(("", ""), rows)


def as_json(timing: Timing) -> None:
    """Print a timing as JSON."""
    show_json(fields_of(timing))
