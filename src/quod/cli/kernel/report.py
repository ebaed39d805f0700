"""The output of `quod kernel analyze`: tables for people, JSON for programs."""

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

_REGISTERS = 65536  # of a multiprocessor
_MOST_WARPS = 64


@frozen
class Report:
    """An analysis, and the assembler's figures; `missing` is the reason if there are none."""

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
        granules = -(-self.assembled.registers // 8) * 8
        warps_per_workgroup = -(-self.analysis.kernel.workgroup_size // 32)
        return min(
            _MOST_WARPS, _REGISTERS // (32 * granules) // warps_per_workgroup * warps_per_workgroup
        )


def report(name: str, arch: str, workgroup: int | None = None) -> Report:
    """Analyse a kernel by name, and assemble it if nvJitLink is installed."""
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


def _summary(costs: Report) -> list[tuple[str, str]]:
    kernel, pressure = costs.analysis.kernel, costs.analysis.pressure
    rows = [
        ("kernel", f"{costs.name}, workgroups of {kernel.workgroup_size}, {costs.arch}"),
        ("live at most", f"{pressure.words} words, at {short(pressure.location)}"),
    ]
    rows += [
        ("" if at else "of them", f"{words} of {short(where)}")
        for at, (where, words) in enumerate(pressure.sources)
    ]
    needs = costs.assembled
    if needs is None:
        rows.append(("assembler", costs.missing))
    else:
        rows += [
            ("registers", f"{needs.registers}, which leaves room for {costs.warps} warps"),
            ("spilled", f"{needs.spill_store_bytes + needs.spill_load_bytes} bytes"),
            ("stack", f"{needs.stack_bytes} bytes"),
        ]
    if kernel.shared_bytes:
        rows.append(("shared memory", f"{kernel.shared_bytes:,} bytes a workgroup"))
    return rows


def _lines(finding: Finding) -> tuple[str, str, str, str]:
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


def print_report(costs: Report) -> None:
    """Print a report as tables on standard output."""
    show_table(("", ""), _summary(costs))
    analysis = costs.analysis
    if analysis.findings:
        rows = [_lines(finding) for finding in analysis.findings]
        show_table(("", "line", "times", "finding"), rows, right=("times",))
    loops = analysis.mix.loops
    columns = ("an instance", "whole", *(f"round of {short(place)}" for place, _ in loops))
    counts = [analysis.mix.whole(), *(body.whole() for _, body in loops)]
    rows_of_kinds = [
        (text, *(f"{count[kind]:,}" for count in counts))
        for kind, text in _KINDS
        if any(count[kind] for count in counts)
    ]
    show_table(columns, rows_of_kinds, right=columns[1:])
    for point in analysis.roofline(H200.bytes_per_second, H200.multiply_adds_per_second):
        if not point.multiply_adds and not point.bytes:
            continue
        rate = point.instances_per_second / 1e9
        share = point.multiply_adds / point.bytes if point.bytes else float("inf")
        show(
            f"{short(point.place)}: {share:.3g} multiply-adds a byte; {point.limit}-bound, at most "
            f"{rate:.3g} G instances/s"
        )
    show(f"Rates are those of {H200.source}.")
    if loops:
        show("A loop whose length is known at run time only counts as one round.")


def as_json(costs: Report) -> None:
    """Print a report as JSON."""
    analysis = costs.analysis
    points = analysis.roofline(H200.bytes_per_second, H200.multiply_adds_per_second)
    result: dict[str, Any] = {
        "kernel": costs.name,
        "arch": costs.arch,
        "workgroup": analysis.kernel.workgroup_size,
        "live_words": analysis.pressure.words,
        "live_at": short(analysis.pressure.location),
        "assembled": None if costs.assembled is None else vars(costs.assembled),
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
