"""The output of measurements as a table or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from quod.bench.measure.harness import Measurement, Parameter
from quod.cli.display.terminal import show_json, show_table


def report(rows: Sequence[Measurement], *, as_json: bool) -> None:
    """Print the rows on standard output."""
    if as_json:
        show_json([asdict(row) for row in rows])
        return
    show_table(
        ("subject", "parameters", "device", "median", "unit", "spread", "peer", "peer's", "ratio"),
        [
            (
                row.subject,
                shown_parameters(row.parameters),
                row.device,
                shown_number(row.median),
                row.unit,
                f"{row.spread:.0%}",
                row.peer or "",
                "" if row.peer_median is None else shown_number(row.peer_median),
                "" if row.ratio is None else f"{row.ratio:.2f}x",
            )
            for row in rows
        ],
        right=("median", "spread", "peer's", "ratio"),
    )


def shown_parameters(parameters: dict[str, Parameter]) -> str:
    """Format parameters as ``name=value`` words."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def shown_number(value: float) -> str:
    """Format a number with three significant digits; large integers in full."""
    if 100_000 <= abs(value) < 1e9 and value == int(value):
        return f"{int(value):,}"
    if value == 0 or 0.001 <= abs(value) < 100_000:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4
        return f"{value:.{digits}f}"
    return f"{value:.3g}"
