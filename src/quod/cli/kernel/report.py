"""The report of `quod kernel analyze`: tables for people, JSON for programs."""

from __future__ import annotations

from typing import Any

from quod.catalogue import find
from quod.cli.display.terminal import show, show_json, show_table
from quod.codegen.ptx.assembler import AssemblerMissing, Usage, assemble, usage
from quod.codegen.ptx.emitter import translate
from quod.codegen.ptx.machine import DEFAULT_WORKGROUP_SIZE, ptx_machine
from quod.device.cuda.limits import MEASURED_BANDWIDTH, MULTIPLY_ADDS_A_CLOCK
from quod.device.limits import Limits
from quod.frozen import frozen
from quod.kernel.analysis import Analysis, Finding, analyze, short

H200 = Limits(
    MEASURED_BANDWIDTH["NVIDIA H200"], MULTIPLY_ADDS_A_CLOCK * 132 * 1.98e9,
    "an H200: 132 multiprocessors at 1980 MHz",
)  # fmt: skip
"""The device of the roofline; it need not be present."""

# Limits of a multiprocessor.
_REGISTERS = 65536
_MAX_WARPS = 64


@frozen
class Report:
    """An analysis and the assembler's figures.

    missing: the reason why there are no figures of the assembler, or empty.
    """

    name: str
    arch: str
    analysis: Analysis
    assembled: Usage | None
    missing: str

    @property
    def warps(self) -> int | None:
        """The number of warps whose registers fit a multiprocessor."""
        if self.assembled is None:
            return None
        allocated_registers = -(-self.assembled.registers // 8) * 8
        warps_per_workgroup = -(-self.analysis.kernel.workgroup_size // 32)
        return min(
            _MAX_WARPS,
            _REGISTERS // (32 * allocated_registers) // warps_per_workgroup * warps_per_workgroup,
        )


def report(name: str, arch: str, workgroup: int | None = None) -> Report:
    """Analyse a kernel by name, and assemble it if nvJitLink is installed.

    workgroup: the size of a workgroup; default: the kernel's.
    """
    registered = find(name)
    size = workgroup or registered.definition.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    kernel = registered.trace(machine)
    analysis, module = analyze(kernel), translate(kernel, machine)
    if module.moves_registers:
        missing = "what nvJitLink assembles moves no registers between roles; the driver's does"
        return Report(name, arch, analysis, None, missing)
    try:
        return Report(name, arch, analysis, usage(assemble(module.text, arch)[1]), "")
    except AssemblerMissing as error:
        return Report(name, arch, analysis, None, str(error))


def _summary(report: Report) -> list[tuple[str, str]]:
    kernel, pressure = report.analysis.kernel, report.analysis.pressure
    rows = [
        ("kernel", f"{report.name}, workgroups of {kernel.workgroup_size}, {report.arch}"),
        ("live at most", f"{pressure.words} words, at {short(pressure.location)}"),
    ]
    rows += [
        ("" if index else "of them", f"{words} of {short(location)}")
        for index, (location, words) in enumerate(pressure.sources)
    ]
    usage_ = report.assembled
    if usage_ is None:
        rows.append(("assembler", report.missing))
    else:
        rows += [
            ("registers", f"{usage_.registers}, which leaves room for {report.warps} warps"),
            ("spilled", f"{usage_.spill_store_bytes + usage_.spill_load_bytes} bytes"),
            ("stack", f"{usage_.stack_bytes} bytes"),
        ]
    if kernel.shared_bytes:
        rows.append(("shared memory", f"{kernel.shared_bytes:,} bytes a workgroup"))
    return rows


def _finding_row(finding: Finding) -> tuple[str, str, str, str]:
    """Return the row of a finding: a mark, the source line, the count and the text."""
    times = f"{finding.count}" if finding.count > 1 else ""
    mark = "" if finding.good else "!"
    return mark, short(finding.location), times, f"{finding.topic}: {finding.text}"


_KINDS = (
    ("multiply-adds", "multiply-adds"), ("additions", "additions, in words"),
    ("floats", "floating-point operations"), ("other", "other, in words"),
    ("loaded", "bytes loaded"), ("stored", "bytes stored"),
    ("moved", "bytes of sectors moved"), ("shared", "bytes of shared memory"),
    ("barriers", "barriers"), ("atomics", "atomics"), ("shuffles", "shuffles and ballots"),
)  # fmt: skip


def print_report(report: Report) -> None:
    """Print a report as tables on standard output."""
    show_table(("", ""), _summary(report))
    analysis = report.analysis
    if analysis.findings:
        rows = [_finding_row(finding) for finding in analysis.findings]
        show_table(("", "line", "times", "finding"), rows, right=("times",))
    loops = analysis.mix.loops
    columns = ("an instance", "whole", *(f"round of {short(location)}" for location, _ in loops))
    counts = [analysis.mix.whole(), *(body.whole() for _, body in loops)]
    mix_rows = [
        (label, *(f"{count[kind]:,}" for count in counts))
        for kind, label in _KINDS
        if any(count[kind] for count in counts)
    ]
    show_table(columns, mix_rows, right=columns[1:])
    for point in analysis.roofline(H200.bytes_per_second, H200.multiply_adds_per_second):
        if not point.multiply_adds and not point.bytes:
            continue
        rate = point.instances_per_second / 1e9
        ratio = point.multiply_adds / point.bytes if point.bytes else float("inf")
        show(
            f"{short(point.place)}: {ratio:.3g} multiply-adds a byte; {point.limit}-bound, at most "
            f"{rate:.3g} G instances/s"
        )
    show(f"Rates are those of {H200.source}.")
    if loops:
        show("A loop whose length is known at run time only counts as one round.")


def as_json(report: Report) -> None:
    """Print a report as JSON."""
    analysis = report.analysis
    points = analysis.roofline(H200.bytes_per_second, H200.multiply_adds_per_second)
    result: dict[str, Any] = {
        "kernel": report.name,
        "arch": report.arch,
        "workgroup": analysis.kernel.workgroup_size,
        "live_words": analysis.pressure.words,
        "live_at": short(analysis.pressure.location),
        "assembled": None if report.assembled is None else vars(report.assembled),
        "findings": [
            {
                "topic": finding.topic, "line": short(finding.location), "text": finding.text,
                "good": finding.good, "count": finding.count,
            }
            for finding in analysis.findings
        ],
        "mix": dict(analysis.mix.whole()),
        "roofline": [
            {
                "line": short(point.place), "multiply_adds": point.multiply_adds,
                "bytes": point.bytes, "limit": point.limit,
            }
            for point in points
        ],
    }  # fmt: skip
    show_json(result)
