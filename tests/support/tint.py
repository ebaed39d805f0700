"""Two compilers of WGSL with no GPU: Tint, which Chromium has, and naga, which wgpu has.

Both only check, and make no machine code: a text of 100 kB takes some tens of milliseconds.
"""

from __future__ import annotations

import contextlib
import functools
import json
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("tint.mjs")
DAWN = SCRIPT.parents[2] / "build" / "node" / "node_modules" / "webgpu"


def why_no_tint() -> str | None:
    """Reason that `Tint` cannot run, or None."""
    if shutil.which("node") is None or not DAWN.is_dir():
        return "the package webgpu is not in build/node; run tools/setup.sh node"
    return None


class Tint:
    """A process that compiles WGSL for as long as the tests run."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._requests = 0

    def errors(self, code: str, timeout: float = 300) -> list[str]:
        """Return Tint's errors about a text, as ``line N: message``."""
        self._requests += 1
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        with contextlib.suppress(BrokenPipeError):
            requests.write(json.dumps({"id": self._requests, "code": code}) + "\n")
            requests.flush()
        if not select.select([answers], [], [], timeout)[0]:
            self._process.kill()
            raise TimeoutError(f"Tint has not answered within {timeout:g} s")
        line = answers.readline()
        if not line:
            raise RuntimeError("Tint has ended; standard error may say why")
        answer = json.loads(line)
        assert answer["id"] == self._requests
        errors: list[str] = answer["errors"]
        return errors

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self._process.communicate(timeout=5)
        self._process.kill()
        self._process.wait()


@functools.cache
def _naga_device() -> Any:
    """The first adapter for native code with 64-bit integers, with all that it offers."""
    import wgpu

    for adapter in wgpu.gpu.enumerate_adapters_sync():
        if "shader-int64" in adapter.features:
            return adapter.request_device_sync(required_features=list(adapter.features))
    return None


def why_no_naga() -> str | None:
    """Reason that `naga_errors` cannot run, or None."""
    try:
        device = _naga_device()
    except ImportError:
        return "the package wgpu is not installed"
    return "no Vulkan driver has 64-bit integers; run tools/setup.sh webgpu" if not device else None


def naga_errors(code: str) -> list[str]:
    """Return naga's errors about a text: none, or its report."""
    import wgpu

    try:
        _naga_device().create_shader_module(code=code)
    except wgpu.GPUValidationError as error:
        return [str(error)]
    return []
