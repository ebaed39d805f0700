"""The options shared by all subjects of `quod bench`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    AsJson,
    Device,
    Option,
    Quiet,
    Trace,
    WrongUsage,
    finite_seconds,
)

if TYPE_CHECKING:
    from quod.bench.measure.harness import Case, Identity, Measurement


Constraints = Annotated[
    list[int] | None,
    Option(
        metavar="N",
        least=1,
        help="Measure a chain of N constraints instead of files; may be given several times.",
    ),
]
Threads = Annotated[
    int | None, Option(least=1, help="The number of CPU threads, also of the peer. Default: all.")
]
ChainCurve = Annotated[str, Option(help="The curve of the chains, such as bn254.")]


def _finite_percent(value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise WrongUsage(f"the percentage must be 0 or more, not {value}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a measurement; each field is a command-line option."""

    device: Device = "cpu"
    against: Annotated[
        str | None,
        Option(metavar="NAME", help="Also measure this peer, and report the ratio."),
    ] = None
    repeats: Annotated[
        int, Option(least=1, help="The minimum number of runs of Quod and of the peer.")
    ] = 5
    seconds: Annotated[
        float,
        Option(
            help="The minimum time of the runs of Quod and of the peer, in seconds.",
            check=finite_seconds,
        ),
    ] = 0.5
    as_json: AsJson = False
    record: Annotated[
        Path | None, Option(metavar="FILE", help="Write the rows to this results file.")
    ] = None
    only_stale: Annotated[
        bool,
        Option(
            "--only-stale",
            help="Measure only rows of --record whose kernels have changed; keep the others.",
        ),
    ] = False
    gate: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Fail if a figure is worse than in this results file, or missing there.",
        ),
    ] = None
    gate_tolerance: Annotated[
        float | None,
        Option(
            metavar="PERCENT",
            help="How much worse --gate lets a figure be. Default: 5.",
            check=_finite_percent,
        ),
    ] = None
    quiet: Quiet = False

    # Options of `StagedSettings` only.
    plot: Path | None = field(default=None, init=False)
    stages: bool = field(default=False, init=False)
    trace: Path | None = field(default=None, init=False)

    def known_rows(self) -> dict[Identity, Measurement]:
        """Return the recorded rows that are kept if their code is unchanged, by identity.

        Checks the output files, so that their errors are raised before the measurement.
        """
        from quod.bench.measure.results import known_rows

        if self.only_stale and self.record is None:
            raise WrongUsage("--only-stale requires --record FILE")
        if self.only_stale and self.gate is not None:
            raise WrongUsage("--gate needs new measurements of all rows; leave out --only-stale")
        outputs = [path for path in (self.record, self.plot, self.trace) if path]
        check_outputs(outputs, [self.gate] if self.gate else [])
        recorded = {} if self.record is None else known_rows(self.record, self.device)
        return recorded if self.only_stale else {}

    def measure(
        self, subject: str, cases: Iterable[Case], *, warm_up: float | None = None,
        floats: str | None = None,
    ) -> None:  # fmt: skip
        """Measure the cases of a subject, print the rows and write the files.

        warm_up: the warm-up time in seconds; None for the device's default.
        floats: the float type of the stages' multiply-adds; None for 32-bit words.
        Raises RegressionError if the gate fails.
        """
        from quod.bench.measure import harness, results
        from quod.bench.measure.gate import read_gate
        from quod.bench.measure.report import report, shown_parameters
        from quod.bench.measure.traced_run import Traced
        from quod.cli.display.terminal import note

        earlier_rows = self.known_rows()
        gate = read_gate(self.gate, self.device, self.gate_tolerance)
        traced = Traced(self.plot, self.trace, stages=self.stages, floats=floats)
        rows = harness.measure(
            subject,
            cases,
            device=self.device,
            against=self.against,
            plan=harness.Plan(
                repeats=self.repeats,
                seconds=self.seconds,
                warm_up=harness.warm_up_of(self.device) if warm_up is None else warm_up,
            ),
            command=harness.command_line(),
            follow=lambda case: note(
                f"measuring {subject} {shown_parameters(case.parameters)} ...", quiet=self.quiet
            ),
            measured=lambda row: note(f"{row.median:.4g} {row.unit}", quiet=self.quiet),
            after=traced.run,
            unchanged=lambda case: note(
                "not measured: the kernels have not changed", quiet=self.quiet
            ),
            earlier_rows=earlier_rows,
        )
        # The figures are recorded first, so that a broken pipe of the output does not lose them.
        if self.record is not None:
            results.record(self.record, rows)
        report(rows, as_json=self.as_json)
        traced.show(subject, self.device)
        if gate is not None:
            gate.check(rows)


@dataclass(frozen=True, kw_only=True)
class StagedSettings(Settings):
    """The settings of a subject whose cases record stages."""

    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a roofline plot of the stages to this file."),
    ] = None
    stages: Annotated[
        bool, Option("--stages", help="Print the stages of each case on standard error.")
    ] = False
    trace: Trace = None


def subject_command(subject: Callable[..., None]) -> Callable[..., None]:
    """Turn a subject into a command with its own options and the options of its settings."""
    hints = get_type_hints(subject, include_extras=True)
    kind: type[Settings] = hints["settings"]
    shared_hints = get_type_hints(kind, include_extras=True)
    shared = {field.name: field.default for field in fields(kind) if field.init}

    def command(**values: Any) -> None:
        shared_values = {name: values.pop(name) for name in shared}
        subject(kind(**shared_values), **values)

    subject_parameters = list(inspect.signature(subject).parameters.values())[1:]
    parameters = [
        parameter.replace(annotation=hints[parameter.name]) for parameter in subject_parameters
    ]
    parameters += [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shared_hints[name]
        )
        for name, default in shared.items()
    ]
    command.__name__, command.__doc__ = subject.__name__, subject.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
