"""The roofline figure: stages under two limits, and their times against the minimum."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quod.bench.measure.roofline import Roofline, StageFigures
from quod.device.limits import Limits
from quod.errors import OutputError, QuodError
from quod.extras import installation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, which are safe for colour-blind readers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_INK, _FAINT = "#222222", "#b8b8b8"

# The maximum number of labelled points: those of the longest stages.
_MAX_NAMES = 16
# Stages below this share of the time have no bar, and the number of bars is limited.
_MIN_BAR = 0.005
_MAX_BARS = 30


def check_plot(path: Path) -> None:
    """Raise before any work if no plot can be written to `path`."""
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"{path}: the file name of a plot must end in {', '.join(FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise QuodError(
            f"plots need matplotlib, which is not installed: {installation('plot')}"
        ) from error


def draw(figures: Roofline, path: Path, title: str) -> None:
    """Write the figure in the format of the suffix of `path`.

    Raises QuodError if no stage has both products and bytes.
    """
    from quod.formats import write_atomically

    if not figures.points:
        raise QuodError(
            f"{title}: no stage on {figures.device} has both products and bytes; "
            "there is nothing to plot"
        )
    content = io.BytesIO()
    _figure(figures, title).savefig(content, format=path.suffix[1:].lower(), dpi=160)
    write_atomically(path, content.getvalue())


def _figure(figures: Roofline, title: str) -> Figure:
    """Draw the roofline on the left, and the times of stages on the right."""
    # pyplot would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bars = _bars(figures)
    figure = Figure(figsize=(12, max(5.4, 1.8 + 0.24 * len(bars))), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    colours = dict(zip(figures.series, _COLOURS * len(figures.series)))
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK)
    _draw_stages(right, bars, colours)
    _draw_roof(left, figures, colours)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, labelsize=9)
    # Labels are placed by the final positions of the axes.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    if figures.limits is not None:
        _name_slope(left, figures.limits)
    _name_points(left, figures.points, colours)
    return figure


# --- the plane


def _draw_roof(axes: Axes, figures: Roofline, colours: dict[str, str]) -> None:
    """Draw the limits of the device, and each stage as a point."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    points, limits = figures.points, figures.limits
    rates = [point.rate for point in points]
    intensities = [point.intensity for point in points]
    if limits is not None:
        rates.append(limits.multiply_adds_per_second)
        intensities.append(limits.ridge)
    low, high = min(intensities) / 4, max(intensities) * 4
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), ylim=(min(rates) / 4, max(rates) * 2.2),
        xlabel=f"multiply-adds {figures.counted} per byte moved",
        ylabel=f"multiply-adds {figures.counted} per second",
    )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        begin, end = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if end < 1000 * begin else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _quantity(value).strip()))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(which="major", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    if limits is not None:
        top, bandwidth, ridge = (
            limits.multiply_adds_per_second, limits.bytes_per_second, limits.ridge,
        )  # fmt: skip
        axes.plot([low, ridge], [low * bandwidth, top], color=_INK, linewidth=1.6)
        axes.plot([ridge, high], [top, top], color=_INK, linewidth=1.6)
        axes.annotate(
            f"multiplier, {_quantity(top)}/s", (ridge, top), (4, 5), textcoords="offset points",
            fontsize=9, color=_INK,
        )  # fmt: skip
    for series in figures.series:
        series_points = [point for point in points if point.series == series]
        axes.scatter(
            [point.intensity for point in series_points], [point.rate for point in series_points],
            s=[_area(point) for point in series_points], color=colours[series], alpha=0.75,
            linewidths=0.8, edgecolors="white", label=series, zorder=3,
        )  # fmt: skip
    source = "limits unknown" if limits is None else f"limits: {limits.source}"
    axes.set_title(
        f"{figures.device}; {source}\narea: fraction of the time",
        fontsize=9,
        loc="left",
        color=_INK,
    )
    if len(figures.series) > 1:
        legend = axes.legend(loc="lower right", fontsize=8, frameon=False)
        for handle in legend.legend_handles:
            if handle is not None and hasattr(handle, "set_sizes"):
                handle.set_sizes([40])


def _name_slope(axes: Axes, limits: Limits) -> None:
    """Label the line of the memory limit."""
    bandwidth, ridge = limits.bytes_per_second, limits.ridge
    low = max(axes.get_xlim()[0], axes.get_ylim()[0] / bandwidth)
    ends = axes.transData.transform([(low, low * bandwidth), (ridge, ridge * bandwidth)])
    angle = math.degrees(math.atan2(*(ends[1] - ends[0])[::-1]))
    middle = math.sqrt(low * ridge)
    axes.text(
        middle, middle * bandwidth * 1.06, f"memory, {_quantity(bandwidth)}B/s",
        ha="center", va="bottom",
        fontsize=9, color=_INK, rotation=angle, rotation_mode="anchor",
    )  # fmt: skip


def _name_points(axes: Axes, points: Sequence[StageFigures], colours: dict[str, str]) -> None:
    """Label the points without overlaps, the longest stages first."""
    from matplotlib.text import Text

    figure: Any = axes.figure
    renderer = figure.canvas.get_renderer()
    occupied = [text.get_window_extent(renderer) for text in axes.texts]
    legend = axes.get_legend()
    if legend is not None:
        occupied.append(legend.get_window_extent(renderer))
    scale = figure.dpi / 72
    drawn_boxes = [_box_of(axes, point, scale) for point in points]
    drawn_boxes += [box for line in axes.lines for box in _boxes_along(axes, line)]
    axes_box = axes.get_window_extent(renderer)
    for point in sorted(points, key=lambda point: -point.share)[:_MAX_NAMES]:
        rejected = []
        radius = _radius(point)
        for offset, horizontal, vertical in _offsets(radius):
            text = axes.annotate(
                point.name, (point.intensity, point.rate), offset, textcoords="offset points",
                ha=horizontal, va=vertical, fontsize=8.5, zorder=4,
                color=colours[point.series] if len(colours) > 1 else _INK,
                arrowprops={
                    "arrowstyle": "-", "color": _FAINT, "linewidth": 0.7, "shrinkB": radius,
                },
            )  # fmt: skip
            if text.arrow_patch is not None:
                text.arrow_patch.set_zorder(2)
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer)  # without the line to the point
            is_free = not any(box.overlaps(other) for other in (*occupied, *drawn_boxes))
            if is_free and axes_box.contains(box.x0, box.y0) and axes_box.contains(box.x1, box.y1):
                occupied.append(box)
                break
            rejected.append(text)
        for text in rejected:
            text.remove()


def _box_of(axes: Axes, point: StageFigures, scale: float) -> Any:
    """Return the box around a point, in pixels."""
    from matplotlib.transforms import Bbox

    x, y = axes.transData.transform((point.intensity, point.rate))
    radius = scale * _radius(point)
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _area(point: StageFigures) -> float:
    """Return the area of a point in square points of the page."""
    return 30 + 700 * point.share


def _radius(point: StageFigures) -> float:
    """Return the radius in points of the page, so that areas are comparable in square points."""
    return math.sqrt(_area(point)) / 2


def _boxes_along(axes: Axes, line: Any) -> Iterator[Any]:
    """Small boxes along a line."""
    from matplotlib.transforms import Bbox

    begin, end = axes.transData.transform(line.get_xydata())
    for step in range(101):
        x, y = begin + (end - begin) * step / 100
        yield Bbox.from_extents(x - 2, y - 2, x + 2, y + 2)


def _offsets(radius: float) -> Iterator[tuple[tuple[float, float], str, str]]:
    """Candidate offsets of a label in points of the page, the nearest first."""
    for distance in (radius + 4, radius + 16, radius + 32, radius + 52, radius + 76, radius + 104):
        for angle in (0, 180, -30, 30, 210, 150, -60, -120, 60, 120, -90, 90):
            x, y = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            horizontal = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
            vertical = "center" if abs(y) < 0.1 else "bottom" if y > 0 else "top"
            yield (distance * x, distance * y), horizontal, vertical


# --- the stages


def _bars(figures: Roofline) -> list[StageFigures]:
    """Return the stages that have a bar, in order."""
    shown_stages = [stage for stage in figures.stages if stage.share >= _MIN_BAR]
    longest = sorted(shown_stages, key=lambda stage: -stage.seconds)[:_MAX_BARS]
    return [stage for stage in shown_stages if stage in longest]


def _draw_stages(axes: Axes, bars: Sequence[StageFigures], colours: dict[str, str]) -> None:
    """Draw a bar for the time of each stage, with its minimum at the limits in a darker colour."""
    # Leaves a gap before each series.
    gaps = {series: 0.8 * number for number, series in enumerate(colours)}
    positions = [number + gaps[stage.series] for number, stage in enumerate(bars)]
    milliseconds_by_stage = [1e3 * stage.seconds for stage in bars]
    axes.barh(
        positions,
        milliseconds_by_stage,
        height=0.72,
        color=[colours[stage.series] for stage in bars],
        alpha=0.3,
    )
    limited_bars = [
        (position, stage)
        for position, stage in zip(positions, bars)
        if stage.least_seconds is not None
    ]
    axes.barh(
        [position for position, _ in limited_bars],
        [1e3 * (stage.least_seconds or 0) for _, stage in limited_bars],
        height=0.72, color=[colours[stage.series] for _, stage in limited_bars],
    )  # fmt: skip
    for position, stage, milliseconds in zip(positions, bars, milliseconds_by_stage):
        limit_text, end = "", milliseconds
        if stage.least_seconds is not None:
            limit_text = f", {stage.least_seconds / stage.seconds:.0%}"
            end = max(end, 1e3 * stage.least_seconds)
        axes.annotate(
            f"{milliseconds:.3g} ms{limit_text}", (end, position), (3, 0),
            textcoords="offset points", va="center", fontsize=8, color=_INK,
        )  # fmt: skip
    axes.set_yticks(positions, [stage.name for stage in bars])
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds", xlim=(0, 1.3 * max(milliseconds_by_stage)))
    axes.margins(y=0.01)
    title = "time per stage"
    if limited_bars:
        title += "\ndark: what its bytes or products take at the limit"
    axes.set_title(title, fontsize=9, loc="left", color=_INK)


def _quantity(value: float) -> str:
    """Format a number with a prefix: 8.36 T."""
    for prefix, unit in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= unit:
            return f"{value / unit:.3g} {prefix}"
    return f"{value:.3g} "
