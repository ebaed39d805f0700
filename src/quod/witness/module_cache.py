"""Compiled modules, built by a child process with limits and cached for the user.

Cached code runs as the user, so the cache is a folder that no other user may change (see
`quod.device.cache.cache`). An entry's key is a digest of the module, wasmtime's version and
everything else that compiled code depends on.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import wasmtime

from quod.device.cache.cache import CompileCache, default_folder, key_of
from quod.errors import InputError
from quod.private_folder import NotOwnError
from quod.witness.compile_child import REFUSED
from quod.witness.engine import CONFIGURATION, engine
from quod.witness.errors import WitnessLimitError
from quod.witness.limits import WitnessLimits

_CACHE_BYTES = 16 << 30
# Wall-clock seconds allowed per CPU second, because cores may be shared.
_WALL_PER_CPU_SECOND = 4
_CHILD = "quod.witness.compile_child"
_UNPRINTED = re.compile(r"[^ -~]")
_MAX_REASON_LENGTH = 200


def module_of(
    wasm: bytes, name: str, limits: WitnessLimits, cache: CompileCache | None = None
) -> wasmtime.Module:
    """Return the compiled module, from the cache if it is there.

    Raises `InputError` if the bytes are not a module, `WitnessLimitError` if compiling exceeds a
    limit.
    """
    module_cache = user_cache() if cache is None else cache
    key = key_of(
        "circom wasm", version("wasmtime"), CONFIGURATION, platform.machine(),
        hashlib.sha256(wasm).digest(),
    )  # fmt: skip
    cached = module_cache.get(key)
    if cached is not None:
        try:
            return wasmtime.Module.deserialize(engine(), cached)
        except wasmtime.WasmtimeError:
            # The cached code is for a CPU with other features.
            module_cache.discard(key)
    code = _compile(wasm, name, limits)
    module_cache.put(key, code)
    return wasmtime.Module.deserialize(engine(), code)


def user_cache() -> CompileCache:
    """Return the user's cache of compiled modules, next to that of kernels."""
    try:
        folder: Path | None = default_folder() / "witness"
    except NotOwnError:
        # `CompileCache` fails in the same way, and warns.
        folder = None
    return CompileCache(folder, _CACHE_BYTES)


def _compile(wasm: bytes, name: str, limits: WitnessLimits) -> bytes:
    """Compile a module in a child process; return the serialised code."""
    command = [sys.executable, "-m", _CHILD, str(limits.compile_seconds), str(limits.compile_bytes)]
    try:
        result = subprocess.run(
            command, input=wasm, capture_output=True, check=False,
            timeout=_WALL_PER_CPU_SECOND * limits.compile_seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _limit_error(name, limits) from None
    if result.returncode == 0:
        return result.stdout
    if result.returncode == REFUSED:
        reason = _UNPRINTED.sub("?", result.stderr.decode(errors="replace").strip())[
            -_MAX_REASON_LENGTH:
        ]
        raise InputError(
            f"cannot be compiled as a WebAssembly module: {reason}; give the .wasm that circom "
            "wrote",
            path=name,
        )
    # The child was killed by a limit, or crashed.
    raise _limit_error(name, limits)


def _limit_error(name: str, limits: WitnessLimits) -> WitnessLimitError:
    return WitnessLimitError(
        f"{name}: compiling takes more than {limits.compile_seconds} s of CPU time or "
        f"{limits.compile_bytes:,} bytes; raise the limits if you trust the module"
    )
