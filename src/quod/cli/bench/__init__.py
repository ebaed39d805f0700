"""quod bench: one module a subject says what to measure, `harness` measures it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quod.cli.options import AsJson, Device, Quiet, Trace

if TYPE_CHECKING:
    from quod.cli.bench.harness import Case, Identity, Measurement

app = typer.Typer(help="Measure Quod on this machine.", no_args_is_help=True)


def _finite_seconds(value: float) -> float:
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value} is no number of seconds from 0 on")
    return value


Against = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Measure this other program beside Quod, and the ratio."),
]
Record = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep the rows in this results file.")
]
OnlyStale = Annotated[
    bool,
    typer.Option(
        "--only-stale",
        help="Keep rows of --record whose kernels are emitted as they were; measure the others.",
    ),
]
Repeats = Annotated[int, typer.Option(min=1, help="Measure each side at least this often.")]
Seconds = Annotated[
    float,
    typer.Option(help="Measure each side at least this long.", callback=_finite_seconds),
]
Sizes = Annotated[
    list[int] | None,
    typer.Option(
        "--log2", metavar="K", min=0, max=28, help="Size 2^K; may be given several times."
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw the stages under the device's limits (a roofline)."),
]
Stages = Annotated[
    bool, typer.Option("--stages", help="Print the stages of each on standard error.")
]
ZkeyFile = Annotated[Path | None, typer.Argument(metavar="ZKEY", help="Proving key of snarkjs.")]
WitnessFile = Annotated[
    Path | None, typer.Argument(metavar="WTNS", help="Witness of the same circuit.")
]
Constraints = Annotated[
    list[int] | None,
    typer.Option(
        metavar="N",
        min=1,
        help="A chain of N products in place of files; may be given several times.",
    ),
]
ChainCurve = Annotated[str, typer.Option(help="Of the chains: bn254, ...")]
Curve = Annotated[str, typer.Option(help="bn254, bls12_381 or bls12_377.")]


@dataclass(frozen=True)
class _Output:
    """What to make of the figures: rows as a table or JSON, and the files to write."""

    as_json: bool
    record: Path | None
    only_stale: bool
    quiet: bool
    plot: Path | None = None
    stages: bool = False
    trace: Path | None = None

    def check(self, device: str) -> dict[Identity, Measurement]:
        """Raises what would keep the files from being written, before anything is measured.

        Gives the rows that need not be measured again if their code is the same.
        """
        from quod.cli.bench.results import known_rows
        from quod.cli.options import check_outputs

        if self.only_stale and self.record is None:
            raise typer.BadParameter("--only-stale is about the rows of --record FILE")
        check_outputs([path for path in (self.record, self.plot, self.trace) if path], [])
        known = {} if self.record is None else known_rows(self.record, device)
        return known if self.only_stale else {}


def _run(
    subject: str,
    cases: Iterable[Case],
    *,
    device: str,
    against: str | None,
    repeats: int,
    seconds: float,
    output: _Output,
    warm_up: float | None = None,
) -> None:
    from quod.cli.bench import harness, results
    from quod.cli.bench.report import report, shown_parameters
    from quod.cli.bench.traced import Traced
    from quod.cli.terminal import note

    known = output.check(device)
    traced = Traced(output.plot, output.trace, stages=output.stages)
    rows = harness.measure(
        subject,
        cases,
        device=device,
        against=against,
        plan=harness.Plan(
            repeats=repeats,
            seconds=seconds,
            warm_up=harness.warm_up_of(device) if warm_up is None else warm_up,
        ),
        command=harness.command_line(),
        follow=lambda case: note(
            f"measuring {subject} {shown_parameters(case.parameters)} ...", quiet=output.quiet
        ),
        after=traced.run,
        unchanged=lambda case: note("the same code as recorded: not measured", quiet=output.quiet),
        known=known,
    )
    # First, so that whoever does not read the table does not lose the figures.
    if output.record is not None:
        results.record(output.record, rows)
    report(rows, as_json=output.as_json)
    traced.show(subject, device)


@app.command()
def field(
    names: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="bn254.fq, bls12_381.fr, ...; all if absent."),
    ] = None,
    device: Device = "cpu",
    chosen: Annotated[
        bool, typer.Option("--chosen", help="On WebGPU: only the limbs that Quod computes in.")
    ] = False,
    limbs: Annotated[
        list[str] | None,
        typer.Option(
            "--limbs", metavar="LIMBS", help="On WebGPU: only these, such as 13 or 29/64:rolled."
        ),
    ] = None,
    against: Against = None,
    repeats: Repeats = 5,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    record: Record = None,
    only_stale: OnlyStale = False,
    plot: Plot = None,
    stages: Stages = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Montgomery products: throughput of one core and of all.

    On WebGPU it is a study: sizes of limbs, forms of products, reductions.
    """
    from quod.device.webgpu.names import is_webgpu_name

    if chosen and limbs:
        raise typer.BadParameter("--chosen and --limbs name limbs both: give one of them")
    if is_webgpu_name(device) and not chosen and not limbs:
        _refuse_for_study(
            against=against, stages=stages, trace=trace, only_stale=only_stale
        )  # fmt: skip
        _study(device, names or [], _Output(as_json, record, only_stale, quiet, plot))
        return
    from quod.cli.bench.field import cases

    _run(
        "field",
        cases(device, names or [], limbs or []),
        device=device,
        against=against,
        repeats=repeats,
        seconds=seconds,
        output=_Output(as_json, record, only_stale, quiet, plot, stages, trace),
    )


def _refuse_for_study(**options: object) -> None:
    for name, value in options.items():
        if value:
            option = name.replace("_", "-")
            raise typer.BadParameter(f"--{option} is nothing that the study of limbs on WebGPU has")


def _study(device: str, names: list[str], output: _Output) -> None:
    from quod.cli.bench import field_study, results
    from quod.cli.bench.field_study_report import draw, measurements, show
    from quod.cli.bench.plot import check_plot
    from quod.cli.terminal import note

    output.check(device)
    if output.plot is not None:
        check_plot(output.plot)
    rows = list(
        field_study.study(
            device, names, lambda what: note(f"measuring {what} ...", quiet=output.quiet)
        )
    )
    if output.record is not None:
        results.record(output.record, measurements(rows, device))
    show(rows, as_json=output.as_json)
    if output.plot is not None:
        draw(rows, output.plot, f"quod bench field: {field_study.adapter_name(device)}")


@app.command()
def msm(
    curve: Curve = "bls12_381",
    group: Annotated[str, typer.Option(help="g1 or g2.")] = "g1",
    sizes: Sizes = None,
    scalars: Annotated[
        str, typer.Option(help="uniform, bits, equal or giant (one bucket holds nearly all).")
    ] = "uniform",
    device: Device = "cpu",
    against: Against = None,
    repeats: Repeats = 5,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    record: Record = None,
    only_stale: OnlyStale = False,
    plot: Plot = None,
    stages: Stages = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Multi-scalar multiplication over distinct points."""
    from quod.cli.bench.msm import cases

    _run(
        "msm",
        cases(device, curve, group, sizes or [12, 14, 16], scalars),
        device=device,
        against=against,
        repeats=repeats,
        seconds=seconds,
        output=_Output(as_json, record, only_stale, quiet, plot, stages, trace),
    )


@app.command()
def ntt(
    curve: Curve = "bn254",
    sizes: Sizes = None,
    device: Device = "cpu",
    against: Against = None,
    repeats: Repeats = 5,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    record: Record = None,
    only_stale: OnlyStale = False,
    plot: Plot = None,
    stages: Stages = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Number-theoretic transforms over the scalar field."""
    from quod.cli.bench.ntt import cases

    _run(
        "ntt",
        cases(device, curve, sizes or [14, 16, 18, 20]),
        device=device,
        against=against,
        repeats=repeats,
        seconds=seconds,
        output=_Output(as_json, record, only_stale, quiet, plot, stages, trace),
    )


@app.command()
def groth16(
    zkey: ZkeyFile = None,
    witness: WitnessFile = None,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
    device: Device = "cpu",
    against: Against = None,
    repeats: Repeats = 5,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    record: Record = None,
    only_stale: OnlyStale = False,
    plot: Plot = None,
    stages: Stages = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Proofs and verification with the key resident.

    The peer snarkjs is its library with the key in memory; `bench process` compares processes.
    """
    from quod.cli.bench.groth16 import cases, chain_cases

    files = _key_or_chain(zkey, witness, constraints)
    _run(
        "groth16",
        cases(device, *files)
        if files
        else chain_cases(device, curve, constraints or [], against=against),
        device=device,
        against=against,
        repeats=repeats,
        seconds=seconds,
        output=_Output(as_json, record, only_stale, quiet, plot, stages, trace),
    )


def _key_or_chain(
    zkey: Path | None, witness: Path | None, constraints: list[int] | None
) -> tuple[Path, Path] | None:
    """The files that were given, or None for chains; BadParameter for neither or both."""
    files = None if zkey is None or witness is None else (zkey, witness)
    if (files is None) == (not constraints) or (files is None and zkey is not None):
        raise typer.BadParameter("give a proving key and its witness, or --constraints")
    return files


@app.command()
def process(
    zkey: ZkeyFile = None,
    witness: WitnessFile = None,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
    device: Device = "cpu",
    against: Against = None,
    repeats: Repeats = 5,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    record: Record = None,
    only_stale: OnlyStale = False,
    quiet: Quiet = False,
) -> None:
    """Whole processes: start-up and its budget, the first proof ever, a later one, peak memory.

    The peers snarkjs and rapidsnark are measured as their users run them, one process a proof.
    With --constraints, how long the kernels of such a proof take to compile.
    """
    from quod.cli.bench.process import cases, chain_cases

    files = _key_or_chain(zkey, witness, constraints)
    _run(
        "process",
        cases(device, *files) if files else chain_cases(device, curve, constraints or []),
        device=device,
        against=against,
        repeats=repeats,
        seconds=seconds,
        output=_Output(as_json, record, only_stale, quiet),
        warm_up=0.0,  # each is a process of its own
    )
