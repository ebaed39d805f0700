"""A process that compiles one module and ends: python -m ... SECONDS BYTES < wasm > compiled.

Compilers are not made for hostile input: here one has limits of its own, and what it does to its
process harms no other.
"""

from __future__ import annotations

import resource
import sys

REFUSED = 3


def main() -> int:
    """Compiles; the exit code is 0, or REFUSED with a line that says why on standard error."""
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
