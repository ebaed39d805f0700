"""A child process that compiles one module: python -m ... SECONDS BYTES < wasm > compiled.

Compilers are not hardened against hostile input: here one has its own limits, and a compromise or
crash affects only this process.
"""

from __future__ import annotations

import resource
import sys

REFUSED = 3


def main() -> int:
    """Compile; return 0, or REFUSED after printing the reason to standard error."""
    seconds, size = map(int, sys.argv[1:])
    for limit, most in (
        (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, size), (resource.RLIMIT_CORE, 0)
    ):  # fmt: skip
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))

    import wasmtime

    from quod.witness.engine import new_engine

    try:
        code = wasmtime.Module(new_engine(), sys.stdin.buffer.read()).serialize()
    except wasmtime.WasmtimeError as error:
        print(str(error).replace("\n", " "), file=sys.stderr)
        return REFUSED
    sys.stdout.buffer.write(code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
