"""A regression gate: compare figures with a baseline, a results file or the output of `--json`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from quod import shallow_json
from quod.bench.measure.harness import Identity, Measurement, command_line, identity
from quod.bench.measure.report import shown_number, shown_parameters
from quod.bench.measure.results import machine
from quod.cli.display.terminal import show_table
from quod.cli.parameters import WrongUsage
from quod.errors import InputError, MismatchError, RegressionError

USUAL_TOLERANCE = 5.0
"""The default tolerance: the percentage by which a figure may be worse."""

_MAX_BYTES = 64 << 20
_FILE_KIND = "a baseline"

# Numerators of units: for the first set less is better, for the second more.
_LESS_IS_BETTER = {"s", "ms", "us", "ns", "clocks", "bytes", "MB", "gas", "refusals"}
_MORE_IS_BETTER = {"G", "GB", "1", "%", "proofs"}

_COLUMNS = ("subject", "parameters", "device", "baseline", "median", "unit", "change", "verdict")


@dataclass(frozen=True)
class Row:
    """The fields of a baseline's row that the gate uses.

    number: the index of the row in the file, for messages.
    figure: the median, in `unit`.
    command: the command line that measured the row.
    """

    number: int
    figure: float
    unit: str
    command: str


@dataclass(frozen=True)
class Gate:
    """A baseline: its rows by identity, and the tolerance in percent."""

    path: Path
    rows: dict[Identity, Row]
    tolerance: float

    @classmethod
    def read(cls, path: Path, device: str, tolerance: float = USUAL_TOLERANCE) -> Gate:
        """Read a baseline for figures of a device.

        The file is a results file or the list that `--json` prints. Raises InputError with the row
        and key if it is malformed, MismatchError for results of another CPU or GPU.
        """
        document = _document(path)
        if isinstance(document, dict):
            if not isinstance(document.get("machine"), dict):
                raise InputError("is not a baseline: it does not describe its machine", path=path)
            _check_machine(path, document["machine"], machine(device))
            document = document.get("rows")
        if not isinstance(document, list) or not document:
            raise InputError("is not a baseline: it has no list of rows", path=path)
        rows: dict[Identity, Row] = {}
        for number, entry in enumerate(document):
            row_identity, row = _row(path, number, entry)
            if row_identity in rows:
                raise InputError(
                    f"measures the same case as row {rows[row_identity].number}; keep one of them",
                    path=path, section=f"row {number}",
                )  # fmt: skip
            rows[row_identity] = row
        return cls(path, rows, tolerance)

    def check(self, measured: Sequence[Measurement]) -> None:
        """Compare figures with the baseline, and print a table on standard error.

        Raises RegressionError if a figure is worse by more than the tolerance, if it has no row in
        the baseline, if a baseline row of the same command was not measured, or if nothing was
        measured. Raises InputError if a row and its figure have different units.
        """
        rows_by_identity = {
            identity(row.subject, row.parameters, row.device, row.peer): row for row in measured
        }
        lines: list[tuple[str, ...]] = []
        failed: list[str] = []
        for row_identity, row in rows_by_identity.items():
            baseline = self.rows.get(row_identity)
            verdict, change = self._verdict(baseline, row)
            lines.append(
                (
                    row.subject, shown_parameters(row.parameters), row.device,
                    "" if baseline is None else shown_number(baseline.figure),
                    shown_number(row.median), row.unit, change, verdict,
                )
            )  # fmt: skip
            if verdict != "ok":
                failed.append(verdict)
        command = command_line()
        for row_identity, baseline in self.rows.items():
            if baseline.command == command and row_identity not in rows_by_identity:
                subject, parameters, device, _ = row_identity
                lines.append(
                    (
                        subject, shown_parameters(json.loads(parameters)), device,
                        shown_number(baseline.figure), "", baseline.unit, "", "not measured",
                    )
                )  # fmt: skip
                failed.append("not measured")
        if lines:
            show_table(_COLUMNS, lines, right=("baseline", "median", "change"), stderr=True)
        if not rows_by_identity:
            failed.append("nothing measured")
        if failed:
            counts = ", ".join(f"{failed.count(kind)} {kind}" for kind in dict.fromkeys(failed))
            raise RegressionError(
                f"of {len(lines)} figures compared with {self.path}: {counts} "
                f"(tolerance: {self.tolerance:g} %); see the table"
            )

    def _verdict(self, baseline: Row | None, row: Measurement) -> tuple[str, str]:
        """Return the verdict on a figure (``ok``, ``worse``, ``no baseline``), and its change."""
        if baseline is None:
            return "no baseline", ""
        if baseline.unit != row.unit:
            raise InputError(
                f"is in {baseline.unit}, but the figure is in {row.unit}; record the baseline "
                "again",
                path=self.path, section=f"row {baseline.number}, key unit",
            )  # fmt: skip
        rise = row.median - baseline.figure
        # A rate is 100 % worse when it is half, as the same work then takes twice as long.
        is_rate = _more_is_better(row.unit)
        loss, reference = (-rise, max(row.median, 0.0)) if is_rate else (rise, baseline.figure)
        change = f"{100 * rise / abs(baseline.figure):+.1f}%" if baseline.figure else ""
        # Written so that NaN does not pass.
        passes = loss <= abs(reference) * self.tolerance / 100
        return "ok" if passes else "worse", change


def read_gate(path: Path | None, device: str, tolerance: float | None) -> Gate | None:
    """Read the gate of the options `--gate` and `--gate-tolerance`; None without `--gate`.

    Raises WrongUsage for a tolerance without a gate.
    """
    if path is None:
        if tolerance is not None:
            raise WrongUsage("--gate-tolerance requires --gate FILE")
        return None
    return Gate.read(path, device, USUAL_TOLERANCE if tolerance is None else tolerance)


def _more_is_better(unit: str) -> bool:
    """Report whether larger figures of a unit are better; InputError for an unknown unit."""
    numerator = unit.partition("/")[0]
    if numerator not in _LESS_IS_BETTER | _MORE_IS_BETTER:
        raise InputError(
            f"the gate cannot compare the unit {unit}: it does not know whether more is better"
        )
    return numerator in _MORE_IS_BETTER


def _document(path: Path) -> Any:
    """Read a file as JSON; InputError if it is not JSON."""
    from quod.formats.source import read_small

    try:
        return shallow_json.load(read_small(path, limit=_MAX_BYTES, what=_FILE_KIND))
    except ValueError as error:
        raise InputError(f"is not a baseline: it is not JSON ({error})", path=path) from error


def _check_machine(
    path: Path, baseline_machine: dict[str, Any], this_machine: dict[str, str | int]
) -> None:
    """Raise MismatchError if a baseline was measured on another GPU or CPU."""
    # Figures of a GPU do not depend on the CPU.
    part = "gpu" if "gpu" in this_machine else "processor"
    if baseline_machine.get(part) != this_machine[part]:
        raise MismatchError(
            f"was measured on {baseline_machine.get(part) or f'no {part}'}, and this machine has "
            f"{this_machine[part]}; use a baseline of this machine",
            path=path,
        )


_TYPES: dict[str, tuple[type, ...]] = {
    "subject": (str,), "parameters": (dict,), "device": (str,), "median": (int, float),
    "unit": (str,), "peer": (str, type(None)), "command": (str,),
}  # fmt: skip


def _row(path: Path, number: int, row: Any) -> tuple[Identity, Row]:
    """Validate a row of a baseline; raises InputError with its number and key."""

    def refuse(message: str, key: str = "") -> InputError:
        section = f"row {number}" + (f", key {key}" if key else "")
        return InputError(message, path=path, section=section)

    if not isinstance(row, dict):
        raise refuse("is not an object")
    for key, types in _TYPES.items():
        if key not in row:
            raise refuse("is missing", key)
        if not isinstance(row[key], types) or isinstance(row[key], bool):
            raise refuse(f"has the wrong type: {json.dumps(row[key])[:60]}", key)
    if unknown := row.keys() - {column.name for column in fields(Measurement)}:
        raise refuse("is not a field of a row", min(unknown))
    for name, value in row["parameters"].items():
        if not isinstance(value, str | int | float):
            raise refuse("is not a number or a string", f"parameters.{name}")
    try:
        figure = float(row["median"])
    except OverflowError:
        figure = math.inf
    if not math.isfinite(figure):
        raise refuse("is not a finite number", "median")
    name = identity(row["subject"], row["parameters"], row["device"], row["peer"])
    return name, Row(number, figure, row["unit"], row["command"])
