"""Results that tests compute with other programs, kept in the cache of compiled kernels."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compiled_code import trace_key
from quod.kernel import Machine
from quod.kernel.registry import RegisteredKernel


def remembered(
    file: str, tool: str, kernel: RegisteredKernel, machine: Machine, compute: Callable[[], str]
) -> str:  # fmt: skip
    """Return `compute()`, from the cache if neither Quod's sources nor `file` have changed.

    file: the test module, on which the result depends beside the kernel's text.
    tool: the version of the compiler on which it depends.
    """
    use = f"{tool} in {_digest_of(file)}"
    key = trace_key(kernel.definition, machine, kernel.static, use)
    cache = CompileCache()
    data = None if key is None else cache.get(key)
    if data is not None:
        return data.decode()
    result = compute()
    if key is not None and sources.are_unchanged():
        cache.put(key, result.encode())
    return result


def result_of(*inputs: str | bytes, compute: Callable[[], str]) -> str:
    """Return `compute()`, from the cache if the inputs, on which alone it depends, are the same."""
    key, cache = key_of("result", *inputs), CompileCache()
    data = cache.get(key)
    if data is not None:
        return data.decode()
    result = compute()
    cache.put(key, result.encode())
    return result


@functools.cache
def _digest_of(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
