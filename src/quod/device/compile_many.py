"""Kernels compiled side by side, before they are first needed."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from quod.device import host
from quod.device.protocol import AnyDevice, CompiledKernel
from quod.kernel.definition import KernelDefinition


@dataclass(frozen=True)
class CompileRequest:
    """What `Device.compile` takes. Without `lanes` it is as many as the device has by default."""

    definition: KernelDefinition
    static: dict[str, Any] = field(default_factory=dict)
    lanes: int | None = None


def compile_many(
    device: AnyDevice, requests: Iterable[CompileRequest], *, threads: int | None = None
) -> list[CompiledKernel]:
    """The kernels, in the order of the requests; KernelError for the first that is wrong.

    Tracing takes turns, and assemblers work beside one another on up to `threads` threads, by
    default as many as the process may run on.
    """
    with ThreadPoolExecutor(
        threads or host.usable_threads(), thread_name_prefix="quod-compile"
    ) as pool:
        begun = [
            pool.submit(device.compile, each.definition, lanes=each.lanes, **each.static)
            for each in requests
        ]
        try:
            return [each.result() for each in begun]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
