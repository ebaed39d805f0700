"""A further run of each case with a timeline, shown as a table, trace or plot."""

from __future__ import annotations

import json
from pathlib import Path

from quod.bench.measure.harness import Case
from quod.device.runtime.timeline import Timeline


class Traced:
    """Runs of cases with a timeline, if an output needs it.

    floats: the float type of the multiply-adds, if they are floats.
    Raises before any work if the plot cannot be drawn.
    """

    def __init__(
        self, plot: Path | None, trace: Path | None, *, stages: bool, floats: str | None = None
    ) -> None:
        self._plot, self._trace, self._stages, self._floats = plot, trace, stages, floats
        self._timeline = Timeline()
        if plot is not None:
            from quod.bench.measure.plot import check_plot

            check_plot(plot)

    def run(self, case: Case) -> None:
        """Run a case in a stage named by its parameters."""
        if case.traced is not None and (self._plot or self._trace or self._stages):
            name = " ".join(str(value) for value in case.parameters.values())
            with self._timeline.stage(name):
                case.traced(self._timeline)

    def show(self, subject: str, device: str) -> None:
        """Write the requested table, trace and plot.

        Raises QuodError if there is no stage to plot.
        """
        if self._trace is not None:
            from quod.formats import write_atomically

            write_atomically(
                self._trace, json.dumps(self._timeline.to_chrome_trace()).encode()
            )  # fmt: skip
        if self._plot is None and not self._stages:
            return
        from quod.bench.measure.ceilings import described_limits
        from quod.cli.display.terminal import show_timings

        name, limits = described_limits(device)
        if self._floats is not None and limits is not None:
            limits = limits.of_floats(self._floats)
        if self._stages:
            show_timings(self._timeline, limits)
        if self._plot is not None:
            from quod.bench.measure.plot import draw
            from quod.bench.measure.roofline import roofline

            operands = f"of {self._floats or '32-bit words'}"
            figures = roofline(self._timeline, name, limits, operands)
            series_text = f": {figures.series[0]}" if len(figures.series) == 1 else ""
            draw(figures, self._plot, f"quod bench {subject}{series_text}")
