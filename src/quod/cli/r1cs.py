"""quod r1cs: constraint systems."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_json
from quod.cli.inspect import show_description
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, AsJson, Option, Quiet, finite_seconds
from quod.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quod.formats import R1cs
    from quod.r1cs.determinism.report import Report
    from quod.r1cs.determinism.waivers import Waiver

_R1cs = Annotated[Path, Argument("R1CS", "Constraint system.")]
_CHUNK_CONSTRAINTS = 4096


def info(r1cs: _R1cs, as_json: AsJson = False) -> None:
    """Describe a constraint system: curve, constraints, wires, inputs."""
    from quod.formats import R1cs, describe

    description = describe(R1cs.open(r1cs).path)
    if as_json:
        show_json(description)
    else:
        show_description(description)


def print_constraints(
    r1cs: _R1cs,
    symbols: Annotated[
        Path | None, Argument("[SYM]", "Names of signals, from circom's --sym.")
    ] = None,
) -> None:
    """Print the constraints, one a line, with the names of signals."""
    from quod.formats import R1cs
    from quod.formats.r1cs_text import constraint, constraint_text
    from quod.formats.sym import wire_names

    system = R1cs.open(r1cs)
    names = {} if symbols is None else wire_names(symbols, system)
    for start in range(0, system.constraints, _CHUNK_CONSTRAINTS):
        numbers = range(start, min(start + _CHUNK_CONSTRAINTS, system.constraints))
        texts = (constraint_text(system, constraint(system, number), names) for number in numbers)
        show("".join(f"{number}: {text}\n" for number, text in zip(numbers, texts, strict=True)))


def check(
    r1cs: _R1cs,
    symbols: Annotated[
        Path | None, Argument("[SYM]", "Names of signals, from circom's --sym.")
    ] = None,
    inputs: Annotated[
        str | None, Option(metavar="NAMES", help="Signals that are inputs, with commas between.")
    ] = None,
    targets: Annotated[
        str | None,
        Option(metavar="NAMES", help="Signals to decide, with commas between, or `all`."),
    ] = None,
    witness: Annotated[
        Path | None, Option(metavar="FILE", help="Witness (.wtns) from which the search starts.")
    ] = None,
    time: Annotated[float, Option(metavar="S", help="Time limit.", check=finite_seconds)] = 60.0,
    waivers: Annotated[Path | None, Option(metavar="FILE", help="Waived signals (JSON).")] = None,
    counterexample: Annotated[
        Path | None, Option(metavar="PREFIX", help="Prefix of the files for two witnesses.")
    ] = None,
    sarif: Annotated[Path | None, Option(metavar="FILE", help="File for a SARIF log.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Decide for each output whether the inputs determine it.

    A target is unique (with a checked certificate), ambiguous (with two witnesses), or unknown.
    The exit code is 0 if all are unique or waived, 13 if one is ambiguous, else 14; also 14 if the
    file marks no outputs and no --targets are named.
    """
    from quod.errors import AmbiguousError, InputError, UndecidedError, naming_file
    from quod.r1cs.determinism.export import (
        counterexample_paths,
        to_json,
        write_counterexample,
        write_sarif,
    )

    outputs = [] if sarif is None else [sarif]
    outputs += [] if counterexample is None else counterexample_paths(counterexample)
    check_outputs(outputs, [path for path in (r1cs, symbols, witness, waivers) if path is not None])
    from quod.formats import R1cs
    from quod.formats.sym import wire_names
    from quod.r1cs.determinism.report import AMBIGUOUS, UNIQUE, empty_report
    from quod.r1cs.determinism.report import check as decide
    from quod.r1cs.determinism.sources import marked_outputs, rows_of_file
    from quod.r1cs.determinism.waivers import read_waivers, unwaived, waivers_of

    accepted = [] if waivers is None else read_waivers(waivers)
    system = R1cs.open(r1cs, any_prime=True)
    with naming_file(r1cs):
        names = {} if symbols is None else wire_names(symbols, system)
        rows = rows_of_file(system, names, inputs=_names(inputs), targets=_names(targets))
    if not rows.targets:
        reason = (
            "marks no outputs, so nothing is decided; name them: --targets NAMES, or all"
            if targets is None
            else "has no signals but inputs, so nothing is decided; name fewer --inputs"
        )
        if as_json:
            show_json(to_json(empty_report(rows, reason)))
        if sarif is not None:
            write_sarif(sarif, empty_report(rows, reason), str(r1cs))
        raise UndecidedError(f"{r1cs} {reason}")
    start = None if witness is None else _values_of(witness, system)
    with nullcontext() if witness is None else naming_file(witness):
        report = decide(
            rows, witness=start, seconds=time, progress=lambda text: note(text, quiet=quiet)
        )
    waiver_of: dict[int, Waiver] = {}
    try:
        with nullcontext() if waivers is None else naming_file(waivers):
            waiver_of = waivers_of(report, accepted)
    except InputError:
        _show_report(report, {}, as_json=as_json, quiet=quiet)
        raise
    _show_report(report, waiver_of, as_json=as_json, quiet=quiet)
    if not report.has_all_findings:
        note(
            "Findings about bits, ranges and divisors were left out: the system is large, or the "
            "time was up.",
            quiet=quiet,
        )
    if sarif is not None:
        write_sarif(sarif, report, str(r1cs), waiver_of)
    all_ambiguous = report.of_kind(AMBIGUOUS)
    verdicts = unwaived(report, waiver_of)
    ambiguous = [verdict for verdict in verdicts if verdict.kind == AMBIGUOUS]
    if counterexample is not None and all_ambiguous:
        wire = (ambiguous or all_ambiguous)[0].wire
        write_counterexample(counterexample, system.curve, report.pairs[wire])
    if ambiguous:
        raise AmbiguousError(
            f"{r1cs}: {counted(len(ambiguous), 'target')} of {len(rows.targets):,} "
            f"{'is' if len(ambiguous) == 1 else 'are'} ambiguous, first {ambiguous[0].name}"
            f"{'' if counterexample else '; write two witnesses with --counterexample PREFIX'}"
        )
    if verdicts:
        limit = f" within {time:g} s" if report.timed_out else "; a longer time does not help"
        if rows.lost_inputs:
            limit += (
                f"; {counted(rows.lost_inputs, 'private input')} of the circuit without a wire: "
                "compile it with --O1, or name the --inputs"
            )
        raise UndecidedError(
            f"{r1cs}: {counted(len(verdicts), 'target')} of {len(rows.targets):,} "
            f"{'is' if len(verdicts) == 1 else 'are'} undecided, first {verdicts[0].name}{limit}"
        )
    unique = len(report.of_kind(UNIQUE))
    waived = f", {len(rows.targets) - unique:,} waived" if accepted else ""
    note(
        f"{counted(unique, 'target')} unique{waived}: {counted(rows.count, 'constraint')}, "
        f"{_findings_text(report)}, {report.seconds:.2f} s",
        quiet=quiet,
    )
    assumed = len(rows.inputs & rows.public)
    if inputs is None and assumed and not marked_outputs(system):
        taken = "was taken as an input" if assumed == 1 else "were taken as inputs"
        note(
            f"{r1cs} marks no outputs: {counted(assumed, 'public signal')} {taken}, not decided.",
            quiet=quiet,
        )


def _values_of(path: Path, system: R1cs) -> list[int]:
    """Return the values of a witness file; raises MismatchError if its field is another one."""
    from quod.errors import MismatchError
    from quod.field.array import words_to_integers
    from quod.formats import Witness
    from quod.formats.curves import field_named

    witness = Witness.open(path)
    field = field_named(witness.curve)
    if field.value != system.fr.value:
        raise MismatchError(f"{path}: the witness is over {witness.curve}, not {system.curve}")
    if len(witness.values) != system.wires:
        raise MismatchError(
            f"has {len(witness.values):,} values; {system.path} has {system.wires:,} wires",
            path=str(path),
        )
    return words_to_integers(field, witness.values)


def _show_report(
    report: Report, waivers: Mapping[int, Waiver], *, as_json: bool, quiet: bool
) -> None:  # fmt: skip
    """Print verdicts with counterexamples and waivers, then findings; or all as JSON."""
    from quod.r1cs.determinism.export import to_json
    from quod.r1cs.determinism.report import UNIQUE

    if as_json:
        show_json(to_json(report, waivers))
        return
    for verdict in report.verdicts:
        if (waiver := waivers.get(verdict.wire)) is not None:
            if not quiet:
                show(f"{verdict}; waived: {waiver.reason} ({waiver.source})")
        elif not quiet or verdict.kind != UNIQUE:
            show("\n".join(report.lines_of(verdict)))
    for finding in report.findings[:_MAX_FINDINGS]:
        show(f"finding: {finding}")
    if (others := len(report.findings) - _MAX_FINDINGS) > 0:
        show(f"{counted(others, 'further finding')}")


_MAX_FINDINGS = 20


def _findings_text(report: Report) -> str:
    return counted(len(report.findings), "finding") if report.findings else "no findings"


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def compile_circuit(
    circuit: Annotated[
        str, Argument("CIRCUIT", "Circuit in Python: FILE.py:FUNCTION.", check_readable=False)
    ],
    out: Annotated[Path, Argument("R1CS", "File for the constraint system.")],
    curve: Annotated[
        str, Option(metavar="NAME", help="Curve over whose scalar field the circuit is.")
    ] = "bn254",
    symbols: Annotated[
        Path | None, Option("--sym", metavar="FILE", help="File for the names of wires.")
    ] = None,
    wasm: Annotated[
        Path | None, Option("--wasm", metavar="FILE", help="File for a witness calculator.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the constraint system of a circuit in Python, with names and calculator if asked for.

    The file of the circuit is executed. The calculator has the interface of circom's; its inputs
    of bits and bytes are lists of bits.
    """
    outputs = [path for path in (out, symbols, wasm) if path is not None]
    check_outputs(outputs, [Path(circuit.rpartition(":")[0])])
    from quod.r1cs.functions.source import circuit_of_source

    traced = circuit_of_source(circuit, curve)
    traced.write_files(out, sym=symbols, wasm=wasm)
    constraints, wires = counted(traced.constraints, "constraint"), counted(traced.wires, "wire")
    note(f"Wrote {constraints} over {traced.curve}, {wires}: {out}.", quiet=quiet)


def json(
    r1cs: _R1cs,
    out: Annotated[Path, Argument("OUT", "File for the constraint system (JSON).")],
    quiet: Quiet = False,
) -> None:
    """Write a constraint system as JSON, as `snarkjs r1cs export json` does."""
    check_outputs([out], [r1cs])
    from quod.formats import R1cs, write_atomically
    from quod.formats.r1cs_text import r1cs_to_json

    write_atomically(out, partial(r1cs_to_json, R1cs.open(r1cs)))
    note(f"Wrote {out}.", quiet=quiet)
