"""quod kernel: the kernels Quod is made of, and their text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from quod.cli.display.terminal import note, show, show_json, show_table
from quod.cli.parameters import (
    Argument,
    AsJson,
    Device,
    Option,
    Quiet,
    WrongUsage,
    finite_seconds,
)
from quod.codegen.targets import TARGETS

_NAME = "Name that `list` shows, or path.py:name for a kernel of a file, which is imported."

# mypy requires literal members.
Form = StrEnum("Form", ["ir", *TARGETS])  # type: ignore[misc]
"""The forms in which a kernel can be printed."""

_IR = Form("ir")


def list_kernels(as_json: AsJson = False) -> None:
    """List the kernels with their parameters."""
    from quod.catalogue import kernels

    rows = kernels()
    if as_json:
        show_json(
            [{"name": row.name, "parameters": row.parameters, "doc": row.doc} for row in rows]
        )
        return
    show_table(
        ("kernel", "parameters", "what it does"),
        [(row.name, ", ".join(map(str, row.parameters)), row.doc.split("\n")[0]) for row in rows],
    )


def emit(
    name: Annotated[str, Argument("NAME", _NAME)],
    target: Annotated[Form, Option(help="Form to print.")] = _IR,
    arch: Annotated[
        str | None,
        Option(metavar="NAME", help="NVIDIA architecture to print it for, such as sm_90a."),
    ] = None,
    workgroup: Annotated[
        int | None,
        Option(
            least=1,
            most=1024,
            help="Number of instances in a workgroup, for an NVIDIA architecture.",
        ),
    ] = None,
) -> None:
    """Print a kernel as Quod's intermediate representation, LLVM, PTX or WGSL.

    PTX is for sm_90a and workgroups of 128 unless the kernel or an option says otherwise, WGSL for
    browsers. With --arch or --workgroup, `ir` is the representation that the PTX is made from.
    """
    from quod.catalogue import find
    from quod.codegen.ptx.machine import DEFAULT_ARCH, DEFAULT_WORKGROUP_SIZE, ptx_machine
    from quod.codegen.targets import emit_registered

    if arch is None and workgroup is None:
        show(emit_registered(find(name), target.value))
        return
    if target is not _IR and not TARGETS[target.value].on_gpu:
        raise WrongUsage("--arch and --workgroup are for NVIDIA GPUs; use --target ptx")
    kernel = find(name)
    size = workgroup or kernel.definition.workgroup or DEFAULT_WORKGROUP_SIZE
    show(emit_registered(kernel, target.value, ptx_machine(size, arch or DEFAULT_ARCH)))


def analyze(
    name: Annotated[str, Argument("NAME", _NAME)],
    arch: Annotated[
        str | None, Option(metavar="NAME", help="NVIDIA architecture, such as sm_90a.")
    ] = None,
    workgroup: Annotated[
        int | None, Option(least=1, most=1024, help="Number of instances in a workgroup.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a kernel's costs on an NVIDIA GPU, and the Python lines that cause them.

    Live registers, accesses to memory, divergence and instruction mix follow from the intermediate
    representation; registers and spills are the assembler's. The command needs no GPU.
    """
    from quod.cli.kernel import report as kernel_report
    from quod.codegen.ptx.machine import DEFAULT_ARCH

    costs = kernel_report.report(name, arch or DEFAULT_ARCH, workgroup)
    if as_json:
        kernel_report.as_json(costs)
    else:
        kernel_report.print_report(costs)


def build(
    out: Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="New folder for the code.")],
    architectures: Annotated[
        list[str] | None,
        Option(
            "--arch",
            metavar="NAME",
            help="NVIDIA architecture; may be repeated. Default: sm_80, sm_89, sm_90a, sm_100a "
            "and sm_120a; with --first-proofs also x86-64-v4-ifma and x86-64-v3, the levels of "
            "CPUs for the host's part of a proof, of which native is that of this CPU.",
        ),
    ] = None,
    patterns: Annotated[
        list[str] | None,
        Option(
            "--kernel",
            metavar="PATTERN",
            help="Pattern of names that `list` shows, with * and ?; may be repeated. Default: all "
            "except kernels for CPUs only.",
        ),
    ] = None,
    first_proofs: Annotated[
        bool,
        Option(
            "--first-proofs",
            help="Build the kernels of a first Groth16 proof over BN254 or BLS12-381, with those "
            "that match a PATTERN.",
        ),
    ] = False,
    wheel: Annotated[
        bool,
        Option("--wheel", help="Write the wheel quod_kernels into FOLDER, which must exist."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Assemble kernels ahead of time, for GPUs that this machine lacks.

    Devices load the code from the folder that QUOD_KERNELS names, or else from the installed
    package quod-kernels, which `--wheel` makes. Kernels that cannot be built for an architecture
    are listed with the reason, and the exit code is 8. The command needs no GPU, but for kernels of
    GPUs the extra `build`.
    """
    from quod.cli.kernel import build as kernel_build

    built = kernel_build.build(
        out,
        architectures or kernel_build.default_architectures(first_proofs=first_proofs),
        patterns or [],
        lambda text: note(text, quiet=quiet),
        first_proofs=first_proofs,
        as_wheel=wheel,
    )
    if as_json:
        kernel_build.as_json(built)
    else:
        kernel_build.print_built(built)
    note(f"Wrote {out}.", quiet=quiet)
    kernel_build.check_all_made(built)


def bench(
    name: Annotated[str, Argument("NAME", _NAME)],
    sizes: Annotated[
        list[str],
        Argument(
            "PARAMETER=NUMBER...",
            "Value of each parameter; for an array the number of its elements.",
        ),
    ],
    device: Device = "cpu",
    zeros: Annotated[
        bool, Option("--zeros", help="Fill arrays with zeros instead of random numbers.")
    ] = False,
    seconds: Annotated[float, Option(help="Shortest measurement.", check=finite_seconds)] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Time a kernel: the median of its launches, and the bandwidth of its arrays in GB/s.

    Arrays are in the device's memory. An array that the kernel stores to counts twice. Only
    `--device cpu:checked` checks that arrays are long enough.
    """
    from quod.cli.kernel import bench as kernel_bench

    timing = kernel_bench.bench(name, sizes, device, zeros=zeros, seconds=seconds)
    if as_json:
        kernel_bench.as_json(timing)
    else:
        kernel_bench.print_timing(timing)
