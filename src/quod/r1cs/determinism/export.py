"""Reports as JSON and SARIF, and counterexamples as .wtns files."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from os import fspath
from typing import Any
from urllib.parse import quote

from quod.formats.output import write_all_atomically, write_atomically
from quod.formats.source import Path
from quod.formats.wtns import wtns_writer
from quod.r1cs.determinism.counterexample import witnesses_of
from quod.r1cs.determinism.report import AMBIGUOUS, UNIQUE, Report, Verdict
from quod.r1cs.determinism.search.pairs import Pair
from quod.r1cs.determinism.waivers import Waiver

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Waivers = Mapping[int, Waiver]
_NO_WAIVERS: Waivers = {}
_LEVELS = {AMBIGUOUS: "error", UNIQUE: "none"}


def to_json(report: Report, waivers: Waivers = _NO_WAIVERS) -> dict[str, Any]:
    """Return a report as a JSON object; numbers that may exceed 64 bits are strings.

    waivers: by the wires of waived targets.
    """
    return {
        "constraints": report.rows.count,
        "prime": str(report.rows.prime),
        "inputs": len(report.rows.inputs),
        "public_inputs": len(report.rows.inputs & report.rows.public),
        "error": report.error or None,
        "seconds": round(report.seconds, 3),
        "timed_out": report.timed_out,
        "certificate_steps": len(report.certificate),
        "findings": [{"kind": each.kind, "message": each.message} for each in report.findings],
        "has_all_findings": report.has_all_findings,
        "targets": [_target(verdict, waivers.get(verdict.wire)) for verdict in report.verdicts],
    }


def _target(verdict: Verdict, waiver: Waiver | None) -> dict[str, Any]:
    values = None if verdict.values is None else [str(value) for value in verdict.values]
    return {
        "signal": verdict.name,
        "wire": verdict.wire,
        "verdict": verdict.kind,
        "values": values,
        "waived": None if waiver is None else {"reason": waiver.reason, "source": waiver.source},
        "core": list(verdict.core),
    }


def write_sarif(
    path: Path, report: Report, artifact: str, waivers: Waivers = _NO_WAIVERS
) -> None:  # fmt: skip
    """Write verdicts that are not unique, and findings, as a SARIF 2.1.0 log for code review.

    artifact: the path of the file that was checked.
    waivers: by the wires of waived targets, whose results are suppressed.
    Raises OutputError if that fails.
    """
    # A URI reference: other characters of file names are percent-encoded.
    file = {"artifactLocation": {"uri": quote(os.fsencode(artifact))}}
    results: list[dict[str, Any]] = [
        {
            "ruleId": verdict.kind,
            "level": _LEVELS.get(verdict.kind, "warning"),
            "message": {"text": f"{verdict}{_places(report, verdict)}"},
            "locations": [
                {
                    "physicalLocation": file,
                    "logicalLocations": [{"fullyQualifiedName": verdict.name}],
                }
            ],
            **_suppressions(waivers.get(verdict.wire)),
        }
        for verdict in report.verdicts
        if verdict.kind != UNIQUE
    ]
    results += [
        {
            "ruleId": finding.kind,
            "level": "warning",
            "message": {"text": str(finding)},
            "locations": [{"physicalLocation": file}],
        }
        for finding in report.findings
    ]
    rules = [
        {"id": AMBIGUOUS, "shortDescription": {"text": "Two witnesses with equal inputs differ."}},
        {"id": "unknown", "shortDescription": {"text": "Neither unique nor shown ambiguous."}},
        *(
            {"id": kind, "shortDescription": {"text": f"{kind.capitalize()}."}}
            for kind in dict.fromkeys(finding.kind for finding in report.findings)
        ),
    ]
    driver = {"name": "quod r1cs check", "rules": rules}
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    if report.error:
        notification = {"level": "error", "message": {"text": f"{artifact} {report.error}"}}
        run["invocations"] = [
            {"executionSuccessful": False, "toolExecutionNotifications": [notification]}
        ]
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    write_atomically(path, json.dumps(log, indent=1).encode() + b"\n")


def _suppressions(waiver: Waiver | None) -> dict[str, Any]:
    if waiver is None:
        return {}
    text = f"{waiver.reason} ({waiver.source})"
    return {"suppressions": [{"kind": "external", "justification": text}]}


def _places(report: Report, verdict: Verdict) -> str:
    if not verdict.core:
        return ""
    shown = [report.rows.place(row) for row in verdict.core[:3]]
    return f"; its core begins at {', '.join(shown)}"


def counterexample_paths(prefix: Path) -> list[pathlib.Path]:
    """Return the paths of two witnesses, PREFIX-1.wtns and PREFIX-2.wtns."""
    return [pathlib.Path(f"{fspath(prefix)}-{number}.wtns") for number in (1, 2)]


def write_counterexample(prefix: Path, field_name: str, pair: Pair) -> None:
    """Write both witnesses to `counterexample_paths`, or none; raises OutputError."""
    paths = counterexample_paths(prefix)
    writers = [wtns_writer(field_name, each.values) for each in witnesses_of(pair, field_name)]
    write_all_atomically(dict(zip(paths, writers)), private=paths)
