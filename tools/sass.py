"""Compile a registered kernel: registers, spills and its mix of machine instructions.

    python -m tools.sass NAME [--arch sm_90a] [--workgroup 128] [--text]

No GPU is needed; nvJitLink and nvdisasm come with the dev extra.
"""

from __future__ import annotations

import argparse

from quod.catalogue import find
from quod.codegen.ptx.emitter import emit
from quod.codegen.ptx.machine import DEFAULT_ARCH, DEFAULT_WORKGROUP_SIZE, ptx_machine
from tests.support.ptx_assembler import assemble, opcodes, sass, usage


def main() -> None:
    """Print the figures of one kernel, and with --text its machine code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", help="a name that `quod kernel list` shows")
    parser.add_argument("--arch", default=DEFAULT_ARCH)
    parser.add_argument("--workgroup", type=int, default=DEFAULT_WORKGROUP_SIZE)
    parser.add_argument("--text", action="store_true", help="print the machine code too")
    args = parser.parse_args()
    machine = ptx_machine(args.workgroup, args.arch)
    cubin, log = assemble(emit(find(args.name).trace(machine), machine), args.arch)
    lines = sass(cubin)
    if args.text:
        print("\n".join(lines))
    needs = usage(log)
    print(
        f"{args.name} on {args.arch}: {needs.registers} registers, {needs.spill_store_bytes} and "
        f"{needs.spill_load_bytes} bytes spilled and loaded again, {needs.stack_bytes} bytes of "
        f"stack, {len(lines)} instructions"
    )
    for name, count in opcodes(lines).most_common():
        print(f"{count:8d}  {name}")


if __name__ == "__main__":
    main()
