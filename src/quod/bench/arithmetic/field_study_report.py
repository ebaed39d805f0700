"""The report of the limb study: a table, JSON, rows of a results file, a figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from quod.bench.arithmetic.field_study import StudyRow, adapter_name, study
from quod.bench.measure.gate import read_gate
from quod.bench.measure.harness import Measurement, command_line, current_commit
from quod.bench.measure.plot import check_plot
from quod.bench.measure.report import shown_number
from quod.bench.measure.results import record
from quod.bench.measure.settings import StagedSettings
from quod.cli.display.terminal import note, show_json, show_table
from quod.cli.parameters import WrongUsage
from quod.errors import QuodError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which are safe for colour-blind readers.
_COLOURS = {"columns": "#0072B2", "rows": "#56B4E9", "karatsuba": "#009E73", "rolled": "#E69F00"}
_INK = "#222222"


# Options without meaning for the study.
_OTHER_OPTIONS = ("against", "stages", "trace", "only_stale")


def run_study(settings: StagedSettings, names: Sequence[str]) -> None:
    """Run the limb study on a WebGPU device, print the figures and write the files.

    Raises RegressionError if the gate fails, WrongUsage for options that do not apply.
    """
    for name in _OTHER_OPTIONS:
        if getattr(settings, name):
            option = name.replace("_", "-")
            raise WrongUsage(
                f"--{option} is not an option of the study of limbs on WebGPU; leave it out"
            )
    settings.known_rows()
    gate = read_gate(settings.gate, settings.device, settings.gate_tolerance)
    if settings.plot is not None:
        check_plot(settings.plot)
    device = settings.device
    rows = list(
        study(device, names, lambda what: note(f"measuring {what} ...", quiet=settings.quiet))
    )
    if settings.record is not None:
        record(settings.record, measurements(rows, device))
    show(rows, as_json=settings.as_json)
    if settings.plot is not None:
        draw(rows, settings.plot, f"quod bench field: {adapter_name(device)}")
    if gate is not None:
        gate.check(measurements(rows, device))


def show(rows: Sequence[StudyRow], *, as_json: bool) -> None:
    """Print the figures on standard output."""
    if as_json:
        show_json([asdict(row) | {"nanoseconds": row.nanoseconds} for row in rows])
        return
    factor, unit, _ = _scale(rows)
    show_table(
        ("field", "what", "limbs", "form", unit, "ns", "compile", "text"),
        [
            (
                row.field, row.what, row.limbs, row.form,
                *(
                    (row.failure, "", "", "")
                    if row.failure
                    else (
                        shown_number(factor * row.rate), shown_number(row.nanoseconds),
                        f"{row.compile_seconds:.2f} s", f"{row.text_bytes / 1000:.1f} kB",
                    )
                ),
            )
            for row in rows
        ],
        right=(unit, "ns", "compile", "text"),
    )  # fmt: skip


def _scale(rows: Sequence[StudyRow]) -> tuple[float, str, str]:
    """Return the display factor of rates, and its unit in short and in words."""
    if max((row.rate for row in rows), default=0.0) < 0.1:
        return 1e3, "M/s", "millions a second"
    return 1.0, "G/s", "thousand millions a second"


def measurements(rows: Sequence[StudyRow], device: str) -> list[Measurement]:
    """Convert the figures to rows of a results file: a rate, a compile time and a size each."""
    commit, command = current_commit(), command_line()
    return [
        Measurement(
            subject="field-study",
            parameters={
                "field": row.field, "what": row.what, "limbs": row.limbs, "form": row.form,
                "figure": figure,
            },
            device=device, median=value, unit=unit, spread=0.0, repeats=1, peer=None,
            peer_median=None, ratio=None, commit=commit, command=command,
        )
        for row in rows
        if not row.failure
        for figure, value, unit in (
            ("rate", row.rate, "G/s"), ("compile", row.compile_seconds, "s"),
            ("text", float(row.text_bytes), "bytes"),
        )
    ]  # fmt: skip


def draw(rows: Sequence[StudyRow], path: Path, title: str) -> None:
    """Draw the rates of each field, with compile times and text sizes.

    Raises QuodError if nothing was measured.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from quod.formats import write_atomically

    measured_rows = [row for row in rows if not row.failure]
    fields = list(dict.fromkeys(row.field for row in measured_rows))
    if not fields:
        raise QuodError(f"{title}: nothing was measured; there is nothing to plot")
    max_rows = max(sum(row.field == field for row in measured_rows) for field in fields)
    factor, _, unit = _scale(measured_rows)
    figure = Figure(figsize=(12, 0.5 + (0.7 + 0.19 * max_rows) * len(fields)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK)
    grid = figure.subplots(len(fields), 3, squeeze=False, width_ratios=(2, 1, 1))
    for field, (rate, seconds, size) in zip(fields, grid, strict=True):
        field_rows = [row for row in measured_rows if row.field == field][::-1]
        _bars(
            rate,
            field_rows,
            [factor * row.rate for row in field_rows],
            f"{field}, by bits of limbs: {unit}",
        )
        _bars(
            seconds, field_rows, [row.compile_seconds for row in field_rows], "seconds to compile"
        )
        _bars(size, field_rows, [row.text_bytes / 1000 for row in field_rows], "kilobytes of WGSL")
        rate.set_yticks(range(len(field_rows)), [_name(row) for row in field_rows])
    forms = dict.fromkeys(row.form for row in measured_rows)
    figure.legend(
        handles=[Patch(color=_COLOURS[form], label=form) for form in forms],
        loc="upper right", ncols=len(forms), fontsize=9, frameon=False,
    )  # fmt: skip
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=160)
    write_atomically(path, content.getvalue())


def _name(row: StudyRow) -> str:
    """Return the limbs, and the operation unless it is a product."""
    return row.limbs if row.what == "product" else f"{row.limbs} {row.what}"


def _bars(axes: Axes, rows: Sequence[StudyRow], values: Sequence[float], title: str) -> None:
    axes.barh(range(len(rows)), values, color=[_COLOURS[row.form] for row in rows], height=0.72)
    axes.set_title(title, fontsize=9, loc="left", color=_INK)
    axes.set_yticks([])
    axes.tick_params(colors=_INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, max(values) * 1.14)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    for index, value in enumerate(values):
        axes.text(value, index, f" {value:.3g}", va="center", fontsize=7, color=_INK)
