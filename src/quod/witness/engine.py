"""The WebAssembly engine of a process, without WASI and with epoch interruption.

A thread increments the epoch ten times per second, and a witness is interrupted at its deadline
(wasmtime's `epoch_interruption`). Fuel would take a quarter of the time of a witness. Traps are
explicit checks in the code instead of signals: signal handlers belong to the whole process, and
another library may replace them. Ray does so without restoring them; a rejected input then killed
the process.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time

import wasmtime

_TICK_SECONDS = 0.1
"""The duration of an epoch."""
_STACK_BYTES = 1 << 20
# Features that circom's modules do not use.
_DISABLED_FEATURES = (
    "wasm_threads", "wasm_tail_call", "wasm_relaxed_simd", "wasm_simd", "wasm_multi_memory",
    "wasm_memory64", "wasm_gc", "wasm_function_references", "wasm_exceptions",
    "wasm_stack_switching",
)  # fmt: skip
CONFIGURATION = f"epochs, no signals, stack {_STACK_BYTES}, without {' '.join(_DISABLED_FEATURES)}"
"""The configuration that compiled code depends on, besides the module and wasmtime."""


def new_engine() -> wasmtime.Engine:
    """Return a new engine without an epoch thread, as the compiling child uses it."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.max_wasm_stack = _STACK_BYTES
    config.signals_based_traps = False
    for name in _DISABLED_FEATURES:
        setattr(config, name, False)
    return wasmtime.Engine(config)


def engine() -> wasmtime.Engine:
    """Return the engine of this process."""
    return _engine_of(os.getpid())


def ticks(seconds: float) -> int:
    """Return the number of epochs after which `seconds` have certainly passed."""
    return math.ceil(seconds / _TICK_SECONDS) + 1


_engine_lock = threading.Lock()


def _engine_of(process: int) -> wasmtime.Engine:
    with _engine_lock:
        return _started_engine(process)


@functools.lru_cache(maxsize=1)
def _started_engine(_process: int) -> wasmtime.Engine:
    # One engine per process, because a fork does not inherit the epoch thread.
    process_engine = new_engine()

    def count() -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            process_engine.increment_epoch()

    threading.Thread(target=count, name="quod-witness-epochs", daemon=True).start()
    return process_engine
