"""The WebAssembly engine of a process: without WASI, interrupted by epochs.

A thread counts epochs, ten a second, and a witness ends at its deadline (wasmtime's
`epoch_interruption`): this is cheaper than fuel, which takes a quarter of the time of a witness.
Traps are checks in the code, not signals: signal handlers belong to the whole process, and another
library may replace them. Ray does so without restoring them, and a rejected input then killed the
process.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time

import wasmtime

_TICK = 0.1
_STACK_BYTES = 1 << 20
# Features that circom's modules do not use.
_OFF = (
    "wasm_threads", "wasm_tail_call", "wasm_relaxed_simd", "wasm_simd", "wasm_multi_memory",
    "wasm_memory64", "wasm_gc", "wasm_function_references", "wasm_exceptions",
    "wasm_stack_switching",
)  # fmt: skip
CONFIGURATION = f"epochs, no signals, stack {_STACK_BYTES}, without {' '.join(_OFF)}"
"""The configuration that compiled code depends on, besides the module and wasmtime."""


def new_engine() -> wasmtime.Engine:
    """Return a new engine; the compiling child uses the same, without an epoch thread."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.max_wasm_stack = _STACK_BYTES
    config.signals_based_traps = False
    for name in _OFF:
        setattr(config, name, False)
    return wasmtime.Engine(config)


def engine() -> wasmtime.Engine:
    """Return the engine of this process."""
    return _engine_of(os.getpid())


def ticks(seconds: float) -> int:
    """Return the number of epochs after which `seconds` have certainly passed."""
    return math.ceil(seconds / _TICK) + 1


_making = threading.Lock()


def _engine_of(process: int) -> wasmtime.Engine:
    with _making:
        return _started_engine(process)


@functools.lru_cache(maxsize=1)
def _started_engine(_process: int) -> wasmtime.Engine:
    # One engine a process, because a fork does not inherit the epoch thread.
    process_engine = new_engine()

    def count() -> None:
        while True:
            time.sleep(_TICK)
            process_engine.increment_epoch()

    threading.Thread(target=count, name="quod-witness-epochs", daemon=True).start()
    return process_engine
