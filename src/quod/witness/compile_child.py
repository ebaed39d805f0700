"""A child process that compiles one module: python -m ... SECONDS BYTES < wasm > compiled.

SECONDS limits CPU time and BYTES address space. Compilers are not hardened against hostile input:
in a child process a compromise or crash affects no other work.
"""

from __future__ import annotations

import resource
import sys

REFUSED = 3
"""The exit code for bytes that cannot be compiled."""


def main() -> int:
    """Compile; return 0, or REFUSED after printing the reason to standard error."""
    seconds, max_bytes = map(int, sys.argv[1:])
    for resource_kind, bound in (
        (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_CORE, 0)
    ):  # fmt: skip
        hard = resource.getrlimit(resource_kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(resource_kind, (bound, bound))

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
