"""quod filecoin prove, prove-update, prove-window-post and prove-winning-post."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show_timings, warn
from quod.cli.filecoin.options import (
    COMMANDS,
    Miner,
    Output,
    Params,
    SectorNumber,
    miner_number,
    number_of_sector,
)
from quod.cli.one_shot import quick_kernels
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, Quiet, Timings, WrongUsage
from quod.wording import counted

if TYPE_CHECKING:
    from quod.device.protocol import AnyDevice
    from quod.filecoin.circuits.private_inputs import CircuitInputs
    from quod.filecoin.statement_files import StatementFile

    InputsOf = Callable[[StatementFile, AnyDevice | None], Iterator[CircuitInputs]]
    """A function that checks the vanilla proofs of a file and returns the circuit's inputs."""


def prove(
    commit: Annotated[Path, Argument("C1", "Output of C1: JSON, lotus's c1.json, or bincode.")],
    output: Output,
    params: Params = None,
    miner: Miner = None,
    sector_number: SectorNumber = None,
    device: Device = "cpu",
    timings: Timings = False,
    quiet: Quiet = False,
) -> None:
    """Prove the replication of a sector from its output of C1: 192 bytes for each partition.

    With --miner the replica id is checked, for the sector's number in lotus's c1.json or of
    --sector-number.
    """
    if sector_number is not None and miner is None:
        raise WrongUsage("--sector-number requires --miner")

    def inputs(file: StatementFile, device: AnyDevice | None) -> Iterator[CircuitInputs]:
        from quod.filecoin.checks.circuit_inputs import checked_commit_inputs

        assert file.output is not None
        if miner is None:
            return checked_commit_inputs(file.output, device=device)
        return checked_commit_inputs(
            file.output, miner=miner_number(miner, 0),
            sector_number=number_of_sector(file, sector_number, commit), device=device,
        )  # fmt: skip

    _prove("porep", commit, output, inputs, params, device, timings=timings, quiet=quiet)


def prove_update(
    update: Annotated[Path, Argument("UPDATE", "Commitments and vanilla proofs (JSON).")],
    output: Output,
    params: Params = None,
    device: Device = "cpu",
    timings: Timings = False,
    quiet: Quiet = False,
) -> None:
    """Prove the update of a sector (SnapDeals) from the vanilla proofs of its partitions."""

    def inputs(file: StatementFile, device: AnyDevice | None) -> Iterator[CircuitInputs]:
        from quod.filecoin.checks.circuit_inputs import checked_update_inputs

        return checked_update_inputs(file.statement, file.vanilla_proofs, device=device)  # type: ignore[arg-type]

    _prove("update", update, output, inputs, params, device, timings=timings, quiet=quiet)


_POST_FILE = Argument("POST", "Randomness and vanilla proofs (JSON).")


def prove_window_post(
    post: Annotated[Path, _POST_FILE],
    output: Output,
    params: Params = None,
    device: Device = "cpu",
    timings: Timings = False,
    quiet: Quiet = False,
) -> None:
    """Prove a WindowPoSt from the vanilla proofs of its sectors: 192 bytes for each partition."""
    _prove("window", post, output, _post_inputs, params, device, timings=timings, quiet=quiet)


def prove_winning_post(
    post: Annotated[Path, _POST_FILE],
    output: Output,
    params: Params = None,
    device: Device = "cpu",
    timings: Timings = False,
    quiet: Quiet = False,
) -> None:
    """Prove a WinningPoSt from the vanilla proof of its sector: 192 bytes."""
    _prove("winning", post, output, _post_inputs, params, device, timings=timings, quiet=quiet)


def _post_inputs(file: StatementFile, device: AnyDevice | None) -> Iterator[CircuitInputs]:
    from quod.filecoin.checks.circuit_inputs import checked_post_inputs

    return checked_post_inputs(file.statement, file.vanilla_proofs, device=device)  # type: ignore[arg-type]


def _prove(
    kind: str, path: Path, output: Path,
    inputs_of: InputsOf, params: Path | None,
    device: str, *, timings: bool, quiet: bool,
) -> None:  # fmt: skip
    """Read a file of vanilla proofs, check them, prove, and write the proof."""
    check_outputs([output], [path])
    from quod.cli.display.progress import followed_timeline
    from quod.errors import naming_file
    from quod.filecoin.checks.circuit_inputs import hashing_device
    from quod.filecoin.parameters.files import check_public_count, parameter_file
    from quod.filecoin.proving import Prover
    from quod.filecoin.statement_files import read_statement
    from quod.formats import write_all_atomically

    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("read vanilla proofs"):
            file = read_statement(path)
        statement = file.statement
        _check_kind(path, file, kind)
        # Opening a key takes long, so all other reasons to refuse come first.
        target = statement.parameters.check_device(device)
        key = parameter_file(statement.parameters, params, ("params",))
        check_outputs([output], [path, key])
        check_public_count(statement.parameters, key)
        with timeline.stage("check vanilla proofs"), naming_file(path):
            inputs = inputs_of(file, hashing_device(statement.parameters.sector, target))
        with quick_kernels(key):
            with timeline.stage("open parameters"):
                prover = Prover(statement.parameters, key, target, timeline)
            if prover.insecure:
                warn(f"{key} is a test key: anyone can forge proofs for it")
            try:
                with timeline.stage("prove"):
                    # With a timeline, witnesses and proofs do not overlap.
                    proof = prover.prove(statement, inputs, timeline if timings else None)
            finally:
                prover.close()
        with timeline.stage("write"):
            write_all_atomically({output: proof})
    if timings:
        show_timings(timeline)
    partitions = counted(statement.partitions, "partition")
    seconds = perf_counter() - begin
    note(
        f"Proved {partitions} in {seconds:.2f} s on {device} and verified the proof: {output}",
        quiet=quiet,
    )


def _check_kind(path: Path, file: StatementFile, kind: str) -> None:
    """Raise unless a file has vanilla proofs of a kind."""
    from quod.errors import InputError, MismatchError

    actual = file.statement.parameters.kind.value
    if actual != kind:
        raise MismatchError(
            f"is a statement of {file.statement.parameters.name}; use quod filecoin "
            f"{COMMANDS[actual]}",
            path=str(path),
        )
    if file.output is None and not file.vanilla_proofs:
        raise InputError(
            "has a statement only; proving needs vanilla proofs", path=str(path),
            section="vanilla_proofs",
        )  # fmt: skip
