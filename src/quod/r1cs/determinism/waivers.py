"""Waivers: targets whose ambiguity is intended, each with a reason and a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import fspath

from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import ANY, parse_json, read_json
from quod.frozen import frozen
from quod.names import nearest
from quod.r1cs.determinism.report import UNIQUE, Report, Verdict

_FIELDS = ("signal", "reason", "source")


@frozen
class Waiver:
    """A target that may be ambiguous or unknown, why, and who decided so.

    signal: the name of the target, or the start of several names and ``*``.
    """

    signal: str
    reason: str
    source: str

    def applies_to(self, name: str) -> bool:
        """Return whether a signal is waived."""
        if self.signal.endswith("*"):
            return name.startswith(self.signal[:-1])
        return name == self.signal


def read_waivers(path: Path) -> list[Waiver]:
    """Read a JSON list of objects with the strings `signal`, `reason` and `source`.

    Raises InputError for any other document.
    """
    name = fspath(path)
    document = parse_json(read_json(path, ANY), name, ANY)
    if not isinstance(document, list):
        raise InputError("is not a list of waivers", path=name)
    waivers = []
    for index, item in enumerate(document, start=1):
        if not isinstance(item, dict) or sorted(item) != sorted(_FIELDS):
            raise InputError(
                f"waiver {index} is not an object with {', '.join(_FIELDS)} and nothing else",
                path=name,
            )
        values = [item[field] for field in _FIELDS]
        if not all(isinstance(value, str) and value for value in values):
            raise InputError(f"a value of waiver {index} is not a nonempty string", path=name)
        waivers.append(Waiver(*values))
    return waivers


def unwaived(report: Report, waivers: Mapping[int, Waiver]) -> list[Verdict]:
    """Return the verdicts that are neither unique nor waived; the waivers are those by wire."""
    return [
        verdict
        for verdict in report.verdicts
        if verdict.kind != UNIQUE and verdict.wire not in waivers
    ]


def waivers_of(report: Report, waivers: Sequence[Waiver]) -> dict[int, Waiver]:
    """Return the waivers by the wires of the targets that they apply to.

    Raises InputError for a waiver of a signal that is unique or no target, so that waivers do not
    outlive their reason.
    """
    # Signals of a .sym file may share a name, and each has a verdict.
    applied: dict[int, Waiver] = {}
    open_verdicts = [verdict for verdict in report.verdicts if verdict.kind != UNIQUE]
    for waiver in waivers:
        others = [verdict for verdict in open_verdicts if not waiver.applies_to(verdict.name)]
        if len(others) == len(open_verdicts):
            names = dict.fromkeys(verdict.name for verdict in open_verdicts)
            qualified = f"main.{waiver.signal}"
            intended = qualified if qualified in names else nearest(waiver.signal, names)
            advice = "remove the waiver" if intended is None else f"did you mean {intended!r}?"
            raise InputError(
                f"the waiver of {waiver.signal!r} applies to nothing: the signal is unique, no "
                f"target, or waived twice; {advice}"
            )
        for verdict in open_verdicts:
            if waiver.applies_to(verdict.name):
                applied[verdict.wire] = waiver
        open_verdicts = others
    return applied
