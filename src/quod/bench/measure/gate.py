"""A regression gate: figures against a baseline, a results file or the output of `--json`."""

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

_MOST_BYTES = 64 << 20
_WHAT = "a baseline"

# The numerators of units: smaller is better for the first set, larger for the second.
_LESS = {"s", "ms", "us", "ns", "clocks", "bytes", "MB", "gas", "refusals"}
_MORE = {"G", "GB", "1", "%", "proofs"}

_COLUMNS = ("subject", "parameters", "device", "baseline", "median", "unit", "change", "verdict")


@dataclass(frozen=True)
class Row:
    """The compared fields of a baseline's row."""

    number: int
    figure: float
    unit: str
    command: str


@dataclass(frozen=True)
class Gate:
    """A baseline by identity of its rows, and the tolerance in percent."""

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
                raise InputError("is no baseline: it does not tell its machine", path=path)
            _check_machine(path, document["machine"], machine(device))
            document = document.get("rows")
        if not isinstance(document, list) or not document:
            raise InputError("is no baseline: it has no list of rows", path=path)
        rows: dict[Identity, Row] = {}
        for number, entry in enumerate(document):
            name, row = _row(path, number, entry)
            if name in rows:
                raise InputError(
                    f"is of what row {rows[name].number} is of; keep one",
                    path=path, section=f"row {number}",
                )  # fmt: skip
            rows[name] = row
        return cls(path, rows, tolerance)

    def check(self, measured: Sequence[Measurement]) -> None:
        """Compare figures with the baseline and print a table on standard error.

        Raises RegressionError if a figure is worse than the tolerance or has no row, if a row of
        this command was not measured, or if nothing was measured. Raises InputError if a row has
        another unit than its figure.
        """
        rows_by_identity = {
            identity(row.subject, row.parameters, row.device, row.peer): row for row in measured
        }
        lines: list[tuple[str, ...]] = []
        failed: list[str] = []
        for name, row in rows_by_identity.items():
            before = self.rows.get(name)
            verdict, change = self._verdict(before, row)
            lines.append(
                (
                    row.subject, shown_parameters(row.parameters), row.device,
                    "" if before is None else shown_number(before.figure),
                    shown_number(row.median), row.unit, change, verdict,
                )
            )  # fmt: skip
            if verdict != "ok":
                failed.append(verdict)
        command = command_line()
        for name, before in self.rows.items():
            if before.command == command and name not in rows_by_identity:
                subject, parameters, device, _ = name
                lines.append(
                    (
                        subject, shown_parameters(json.loads(parameters)), device,
                        shown_number(before.figure), "", before.unit, "", "not measured",
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
                f"of {len(lines)} figures beside {self.path}: {counts} "
                f"(at most {self.tolerance:g} % worse passes); the table tells which"
            )

    def _verdict(self, before: Row | None, row: Measurement) -> tuple[str, str]:
        """Return the verdict on a figure, and its relative change."""
        if before is None:
            return "no baseline", ""
        if before.unit != row.unit:
            raise InputError(
                f"is in {before.unit}, and the figure in {row.unit}; record it again",
                path=self.path, section=f"row {before.number}, key unit",
            )  # fmt: skip
        rise = row.median - before.figure
        # A rate is 100 % worse when it is half, as the same work then takes twice as long.
        is_rate = _more_is_better(row.unit)
        worse, of = (-rise, max(row.median, 0.0)) if is_rate else (rise, before.figure)
        change = f"{100 * rise / abs(before.figure):+.1f}%" if before.figure else ""
        # Formulated so that NaN fails.
        passes = worse <= abs(of) * self.tolerance / 100
        return "ok" if passes else "worse", change


def read_gate(path: Path | None, device: str, tolerance: float | None) -> Gate | None:
    """Read the gate of the options `--gate` and `--gate-tolerance`; None without `--gate`.

    Raises WrongUsage for a tolerance without a gate.
    """
    if path is None:
        if tolerance is not None:
            raise WrongUsage("--gate-tolerance is about the rows of --gate FILE")
        return None
    return Gate.read(path, device, USUAL_TOLERANCE if tolerance is None else tolerance)


def _more_is_better(unit: str) -> bool:
    counted = unit.partition("/")[0]
    if counted not in _LESS | _MORE:
        raise InputError(f"a gate does not know whether more {unit} are better")
    return counted in _MORE


def _document(path: Path) -> Any:
    from quod.formats.source import read_small

    try:
        return shallow_json.load(read_small(path, limit=_MOST_BYTES, what=_WHAT))
    except ValueError as error:
        raise InputError(f"is no baseline: no JSON ({error})", path=path) from error


def _check_machine(path: Path, theirs: dict[str, Any], here: dict[str, str | int]) -> None:
    # Figures of a GPU do not depend on the CPU.
    part = "gpu" if "gpu" in here else "processor"
    if theirs.get(part) != here[part]:
        raise MismatchError(
            f"is of {theirs.get(part) or f'no {part}'}, and this is {here[part]}: figures of "
            "different machines do not compare",
            path=path,
        )


_TYPES: dict[str, tuple[type, ...]] = {
    "subject": (str,), "parameters": (dict,), "device": (str,), "median": (int, float),
    "unit": (str,), "peer": (str, type(None)), "command": (str,),
}  # fmt: skip


def _row(path: Path, number: int, row: Any) -> tuple[Identity, Row]:
    def refuse(message: str, key: str = "") -> InputError:
        place = f"row {number}" + (f", key {key}" if key else "")
        return InputError(message, path=path, section=place)

    if not isinstance(row, dict):
        raise refuse("is no object")
    for key, types in _TYPES.items():
        if key not in row:
            raise refuse("is missing", key)
        if not isinstance(row[key], types) or isinstance(row[key], bool):
            raise refuse(f"is {json.dumps(row[key])[:60]}, which is none", key)
    if unknown := row.keys() - {column.name for column in fields(Measurement)}:
        raise refuse("is nothing that this Quod records", min(unknown))
    for name, value in row["parameters"].items():
        if not isinstance(value, str | int | float):
            raise refuse("is no parameter of a figure", f"parameters.{name}")
    try:
        figure = float(row["median"])
    except OverflowError:
        figure = math.inf
    if not math.isfinite(figure):
        raise refuse("is no finite number", "median")
    name = identity(row["subject"], row["parameters"], row["device"], row["peer"])
    return name, Row(number, figure, row["unit"], row["command"])
