"""Findings of the static analyses as text with Python lines, and rooflines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Literal

from quod.frozen import frozen
from quod.kernel.analysis.access import Access, conflicts, traffic
from quod.kernel.analysis.lanes import Reason
from quod.kernel.analysis.mix import Mix
from quod.kernel.analysis.pressure import Pressure, pressure
from quod.kernel.analysis.walk import Divergence, follow
from quod.kernel.ir.nodes import Kernel, Location

Topic = Literal["memory", "banks", "divergence"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


@frozen
class Finding:
    """One finding about a line.

    good: nothing can be improved there.
    count: number of ops of the line with this finding; an unrolled line has several.
    """

    topic: Topic
    location: Location
    text: str
    good: bool
    count: int = 1


@frozen
class Roofline:
    """The roofline of a kernel, or of one iteration of a loop.

    multiply_adds, bytes: multiply-adds and global memory traffic of one instance.
    seconds_by_memory, seconds_by_multiplier: their time at the peak rates of the whole GPU.
    """

    place: Location
    multiply_adds: int
    bytes: int
    seconds_by_memory: float
    seconds_by_multiplier: float

    @property
    def limit(self) -> Literal["memory", "multiplier"]:
        """The resource that takes longer."""
        by_memory = self.seconds_by_memory >= self.seconds_by_multiplier
        return "memory" if by_memory else "multiplier"

    @property
    def instances_per_second(self) -> float:
        """The throughput in instances per second under the tighter limit; infinite without work."""
        seconds = max(self.seconds_by_memory, self.seconds_by_multiplier)
        return 1 / seconds if seconds else float("inf")


@frozen
class Analysis:
    """The results of the static analyses of a traced kernel."""

    kernel: Kernel
    pressure: Pressure
    findings: tuple[Finding, ...]
    mix: Mix

    def roofline(self, bytes_per_second: float, multiply_adds_per_second: float) -> list[Roofline]:
        """Return the rooflines of the kernel and of one iteration of each unbounded loop.

        The kernel's own roofline counts one iteration of each unbounded loop.
        """
        rates = bytes_per_second, multiply_adds_per_second
        rooflines = [_roofline(self.kernel.location, self.mix.whole(), *rates)]
        for location, body in self.mix.loops:
            rooflines.append(_roofline(location, body.whole(), *rates))
        return rooflines


def _roofline(
    location: Location,
    counts: Counter[str],
    bytes_per_second: float,
    multiply_adds_per_second: float,
) -> Roofline:
    moved_bytes, multiply_adds = counts["moved"], counts["multiply-adds"]
    return Roofline(
        location,
        multiply_adds,
        moved_bytes,
        moved_bytes / bytes_per_second,
        multiply_adds / multiply_adds_per_second,
    )


def analyze(kernel: Kernel) -> Analysis:
    """Analyse the register pressure, memory accesses, divergence and instruction mix of a kernel.

    Assumes that buffers begin at multiples of 256 bytes, as allocated memory does, and that all
    lanes enter loops and branches that depend on data.
    """
    walk = follow(kernel)
    findings_by_key: dict[Hashable, Finding] = {}
    counts: Counter[Hashable] = Counter()
    for finding in _findings(walk.accesses, walk.divergences):
        key = (finding.topic, finding.location, finding.text)
        findings_by_key[key] = finding
        counts[key] += 1
    findings = [
        Finding(finding.topic, finding.location, finding.text, finding.good, counts[key])
        for key, finding in findings_by_key.items()
    ]
    order = {"memory": 0, "banks": 1, "divergence": 2}
    findings.sort(key=lambda finding: (finding.good, order[finding.topic]))
    return Analysis(kernel, pressure(kernel), tuple(findings), walk.mix)


def _findings(accesses: list[Access], divergences: list[Divergence]) -> Iterator[Finding]:
    for access in accesses:
        finding = _coalescing(access) if access.space == "global" else _banks(access)
        if finding is not None:
            yield finding
    for divergence in divergences:
        yield _divergence(divergence)


def short(location: Location) -> str:
    """Format a location as ``file:line``.

    Files of Quod are relative to the folder that contains the package, others to the current
    folder if they are below it.
    """
    file = location.file
    if file.startswith(_PACKAGE):
        return f"{file[len(_PACKAGE) :]}:{location.line}"
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if relative.startswith('..') else relative}:{location.line}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _bytes(access: Access) -> str:
    return _plural(access.bytes, "byte")


def _reason_text(reason: Reason) -> str:
    return f"{reason} {short(reason.location)}"


def _coalescing(access: Access) -> Finding | None:
    per_warp = traffic(access)
    if per_warp is None:
        return None
    text = (
        f"{access.verb} of {_bytes(access)} a lane: {_plural(per_warp.sectors, 'sector')} a warp, "
        f"{per_warp.least} would do"
    )
    reason = access.address.reason
    if reason is not None:
        text += f"; scattered: the address {_reason_text(reason)}"
    elif per_warp.sectors > per_warp.least:
        distance = (
            "at uneven distances" if per_warp.stride is None else f"{per_warp.stride} bytes apart"
        )
        text += f"; neighbours are {distance}"
    elif per_warp.requests > per_warp.sectors:
        text += f", asked for {per_warp.requests} times: the cache gives what is left"
    return Finding("memory", access.location, text, per_warp.sectors <= per_warp.least)


def _banks(access: Access) -> Finding | None:
    if access.address.reason is not None:
        text = (
            f"{access.verb} of {_bytes(access)} a lane at banks that are not known: the "
            f"address {_reason_text(access.address.reason)}"
        )
        return Finding("banks", access.location, text, False)
    banks = conflicts(access)
    if banks is None:
        return None
    text = f"{access.verb} of {_bytes(access)} a lane: {_plural(banks.turns, 'turn')} at the banks"
    if banks.turns <= banks.least:
        return Finding("banks", access.location, f"{text}, the least", True)
    text += f", {banks.least} would do"
    remedies = []
    if banks.padded < banks.turns:
        remedies.append(f"with padding after each 32 words it takes {banks.padded}")
    if banks.swizzled < banks.turns:
        remedies.append(f"with the word's index xored with its 32nd part {banks.swizzled}")
    return Finding("banks", access.location, "; ".join([text, *remedies]), False)


def _divergence(site: Divergence) -> Finding:
    form = site.form
    if site.reason is None:
        text = f"{form} divides {site.warps} of a workgroup's warps, by the index of their lanes"
        return Finding("divergence", site.location, text, False)
    if site.reason.kind == "boundary":
        text = (
            f"{form}: lanes part where it {_reason_text(site.reason)}: one warp or few of the grid"
        )
        return Finding("divergence", site.location, text, True)
    effect = "ends at different times" if form == "loop" else "divides warps"
    text = f"{form} {effect}: it {_reason_text(site.reason)}"
    return Finding("divergence", site.location, text, False)
