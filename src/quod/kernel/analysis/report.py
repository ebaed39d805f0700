"""The report of the analyses: findings as text, each with its Python line."""

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
    """One finding about a line; `good` if nothing can be improved there.

    `count` is the number of ops of the line with this finding (the line may be unrolled).
    """

    topic: Topic
    location: Location
    text: str
    good: bool
    count: int = 1


@frozen
class Roofline:
    """The roofline of a kernel or loop: its load per instance on the two limits of a GPU.

    `seconds_by_memory` and `seconds_by_multiplier` are per instance, with all of the GPU busy.
    """

    place: Location
    multiply_adds: int
    bytes: int
    seconds_by_memory: float
    seconds_by_multiplier: float

    @property
    def limit(self) -> Literal["memory", "multiplier"]:
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
        """Rooflines of the kernel, with one round per unbounded loop, and of each such loop."""
        limits = bytes_per_second, multiply_adds_per_second
        points = [_roofline(self.kernel.location, self.mix.whole(), *limits)]
        for location, body in self.mix.loops:
            points.append(_roofline(location, body.whole(), *limits))
        return points


def _roofline(place: Location, counts: Counter[str], memory: float, multiplier: float) -> Roofline:
    moved, products = counts["moved"], counts["multiply-adds"]
    return Roofline(place, products, moved, moved / memory, products / multiplier)


def analyze(kernel: Kernel) -> Analysis:
    """Analyse the register pressure, memory accesses, divergence and instruction mix of a kernel.

    Assumes that buffers begin at multiples of 256 bytes, as allocated memory does, and that all
    lanes enter loops and branches that depend on data.
    """
    walked = follow(kernel)
    findings_by_key: dict[Hashable, Finding] = {}
    counts: Counter[Hashable] = Counter()
    for finding in _findings(walked.accesses, walked.divergences):
        key = (finding.topic, finding.location, finding.text)
        findings_by_key[key] = finding
        counts[key] += 1
    findings = [
        Finding(finding.topic, finding.location, finding.text, finding.good, counts[key])
        for key, finding in findings_by_key.items()
    ]
    order = {"memory": 0, "banks": 1, "divergence": 2}
    findings.sort(key=lambda finding: (finding.good, order[finding.topic]))
    return Analysis(kernel, pressure(kernel), tuple(findings), walked.mix)


def _findings(accesses: list[Access], divergences: list[Divergence]) -> Iterator[Finding]:
    for access in accesses:
        finding = _coalescing(access) if access.space == "global" else _banks(access)
        if finding is not None:
            yield finding
    for divergence in divergences:
        yield _divergence(divergence)


def short(location: Location) -> str:
    """Format a location: relative to the package inside Quod, else to the current folder."""
    file = location.file
    if file.startswith(_PACKAGE):
        return f"{file[len(_PACKAGE) :]}:{location.line}"
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if near.startswith('..') else near}:{location.line}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _bytes(access: Access) -> str:
    return _several(access.bytes, "byte")


def _because(reason: Reason) -> str:
    return f"{reason} {short(reason.location)}"


def _coalescing(access: Access) -> Finding | None:
    sectors = traffic(access)
    if sectors is None:
        return None
    text = (
        f"{access.verb} of {_bytes(access)} a lane: {_several(sectors.sectors, 'sector')} a warp, "
        f"{sectors.least} would do"
    )
    reason = access.address.reason
    if reason is not None:
        text += f"; scattered: the address {_because(reason)}"
    elif sectors.sectors > sectors.least:
        apart = "at uneven distances" if sectors.stride is None else f"{sectors.stride} bytes apart"
        text += f"; neighbours are {apart}"
    elif sectors.requests > sectors.sectors:
        text += f", asked for {sectors.requests} times: the cache gives what is left"
    return Finding("memory", access.location, text, sectors.sectors <= sectors.least)


def _banks(access: Access) -> Finding | None:
    if access.address.reason is not None:
        text = (
            f"{access.verb} of {_bytes(access)} a lane at banks that are not known: the "
            f"address {_because(access.address.reason)}"
        )
        return Finding("banks", access.location, text, False)
    banks = conflicts(access)
    if banks is None:
        return None
    text = f"{access.verb} of {_bytes(access)} a lane: {_several(banks.turns, 'turn')} at the banks"
    if banks.turns <= banks.least:
        return Finding("banks", access.location, f"{text}, the least", True)
    text += f", {banks.least} would do"
    ways = []
    if banks.padded < banks.turns:
        ways.append(f"with padding after each 32 words it takes {banks.padded}")
    if banks.swizzled < banks.turns:
        ways.append(f"with the word's index xored with its 32nd part {banks.swizzled}")
    return Finding("banks", access.location, "; ".join([text, *ways]), False)


def _divergence(site: Divergence) -> Finding:
    what = site.form
    if site.reason is None:
        text = f"{what} divides {site.warps} of a workgroup's warps, by the index of their lanes"
        return Finding("divergence", site.location, text, False)
    if site.reason.kind == "boundary":
        text = f"{what}: lanes part where it {_because(site.reason)}: one warp or few of the grid"
        return Finding("divergence", site.location, text, True)
    parts = "ends at different times" if what == "loop" else "divides warps"
    text = f"{what} {parts}: it {_because(site.reason)}"
    return Finding("divergence", site.location, text, False)
