"""quod filecoin params, inspect and seal-test."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show_json, show_table, warn
from quod.cli.filecoin.options import check_miner, miner_number, parameter_sets
from quod.cli.inspect import show_description
from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    Argument,
    AsJson,
    Device,
    Force,
    Option,
    Quiet,
    WrongUsage,
)

if TYPE_CHECKING:
    from quod.filecoin.parameters.identifiers import ParameterSet

# The miner and the first sector of `seal-test`.
_TEST_MINER, _TEST_SECTOR = 1000, 1


def inspect(
    # The command reads it and reports unreadable files as other commands do.
    file: Annotated[Path, Argument("FILE", "A file of the kinds above.", check_readable=False)],
    as_json: AsJson = False,
) -> None:
    """Describe an output of C1, a statement, vanilla proofs, seal records, a proof or a key."""
    from quod.filecoin.describe import describe_file

    description = describe_file(file)
    if as_json:
        show_json(description)
    else:
        show_description(description)


def params(
    kind: Annotated[str | None, Argument("[KIND]", "porep, window, winning or update.")] = None,
    sector: Annotated[str | None, Argument("[SECTOR]", "Sector size, such as 32GiB.")] = None,
    folder: Annotated[
        Path | None,
        Option("--params", metavar="FOLDER", help="Folder. Default: see prove --params."),
    ] = None,
    seed: Annotated[
        int | None, Option(metavar="N", least=0, help="Make test parameters from this secret seed.")
    ] = None,
    insecure_test_key: Annotated[
        bool,
        Option(
            "--insecure-test-key",
            help="Required with --seed: confirm that anyone with the seed can forge proofs.",
        ),
    ] = False,
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Check the parameter files in a folder, all or those of KIND and SECTOR.

    With --seed the command makes INSECURE parameters for tests and development networks instead, in
    a folder that exists.
    The exit code of a check is 0 only if each file is the network's or a test key.
    """
    from quod.errors import OutputError
    from quod.filecoin.parameters.files import default_folder

    parameters = parameter_sets(kind, sector)
    target = default_folder() if folder is None else folder
    if seed is None:
        _check_parameters(parameters, target)
        return
    if kind is None or sector is None:
        raise WrongUsage("--seed makes parameters of one KIND and SECTOR; name both")
    if not insecure_test_key:
        raise WrongUsage(
            "anyone who knows the seed can forge proofs for these parameters; pass "
            "--insecure-test-key if they are only for tests"
        )
    (chosen,) = parameters
    chosen.check_device(device)
    paths = [target / chosen.file_name(suffix) for suffix in ("params", "vk", "meta")]
    check_outputs(paths, [])
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        raise OutputError(
            f"{existing[0]}: exists, and may be the network's; name another folder with --params, "
            "or replace it with --force"
        )
    from quod.cli.display.progress import followed_timeline
    from quod.filecoin.parameters.generation import make_parameters

    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        make_parameters(chosen, target, seed, device=device, replace=force, timeline=timeline)
    warn(
        f"{paths[0]} is INSECURE: anyone who knows the seed can forge proofs for it; use it only "
        "for tests"
    )
    note(f"Made {chosen.name} in {perf_counter() - begin:.2f} s: {target}", quiet=quiet)


def _check_parameters(sets: list[ParameterSet], folder: Path) -> None:
    """Print the origin of the files of sets; raise for a file of an unknown origin."""
    from quod.errors import InputError, MismatchError
    from quod.filecoin.parameters.files import (
        Origin,
        check_public_count,
        download_advice,
        file_digest,
        origin_of,
    )
    from quod.filecoin.parameters.identifiers import Suffix
    from quod.formats.bellman import BellmanVerifyingKey, verifying_key_bytes
    from quod.formats.source import existing_size, map_file

    suffixes: tuple[Suffix, ...] = ("params", "vk")
    files = [
        (parameters, suffix, path) for parameters in sets for suffix in suffixes
        if existing_size(path := folder / parameters.file_name(suffix)) is not None
    ]  # fmt: skip
    if not files:
        if not folder.is_dir():
            raise InputError("does not exist or is not a folder", path=str(folder))
        raise InputError(
            f"has no files of these parameters; {download_advice()}, or name another folder with "
            "--params",
            path=str(folder),
        )
    rows, errors = [], []
    keys: dict[ParameterSet, bytes] = {}
    for parameters, suffix, path in files:
        digest = file_digest(path)
        try:
            origin = origin_of(parameters, path, digest)
            if origin is Origin.TEST:
                check_public_count(parameters, path)
                BellmanVerifyingKey.open(path)
                key = bytes(map_file(path)[: verifying_key_bytes(parameters.public)])
                if keys.setdefault(parameters, key) != key:
                    raise MismatchError(
                        "does not belong to the proving key in this folder; make both files again",
                        path=str(path),
                    )  # fmt: skip
        except InputError as error:
            errors.append(error)
            continue
        if origin is Origin.OTHER:
            errors.append(
                InputError(
                    f"has the digest {digest}, which is not that of the network's "
                    f"{parameters.name}, and is not marked as a test key",
                    path=str(path),
                )
            )
        rows.append(
            (parameters.name, suffix, f"{existing_size(path) or 0:,}", digest, origin.value)
        )
    if rows:
        show_table(("set", "file", "bytes", "digest", "origin"), rows, right=("bytes",))
    for other in errors[1:]:
        warn(str(other))
    if errors:
        raise errors[0]


def seal_test(
    kind: Annotated[str, Argument("KIND", "porep, window, winning or update.")],
    sector: Annotated[str, Argument("SECTOR", "Sector size, such as 32GiB.")],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="File (JSON).")],
    miner: Annotated[
        str | None,
        Option(
            "--miner",
            metavar="N",
            check=check_miner,
            help=f"Actor id of the miner, such as f01000, for porep. Default: {_TEST_MINER}.",
        ),
    ] = None,
    sector_number: Annotated[
        int | None,
        Option(
            "--sector-number",
            metavar="N",
            least=0,
            help="The number of the sector, or of the first one; not for update. "
            f"Default: {_TEST_SECTOR}.",
        ),
    ] = None,
    sectors: Annotated[
        int, Option(metavar="N", least=1, help="Number of sectors of a WindowPoSt.")
    ] = 1,
    all_nodes: Annotated[
        bool, Option("--whole", help="Seal random data of up to 8 MiB for porep.")
    ] = False,
    synthetic: Annotated[
        bool, Option("--synthetic", help="Use a synthetic PoRep, with --whole.")
    ] = False,
    seed: Annotated[int, Option(metavar="N", least=0, help="Seed of all random values.")] = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write vanilla proofs of a test sector: valid inputs for the proving commands.

    Without --whole no sector exists: only the nodes on the challenged paths are computed, and the
    nodes next to them are random. Use the proofs only to test or benchmark provers.
    """
    from quod.filecoin.sealing.sealed_sector import MAX_SECTOR

    if kind != "porep" and (all_nodes or synthetic):
        raise WrongUsage("--whole and --synthetic are only for porep")
    if synthetic and not all_nodes:
        raise WrongUsage("--synthetic needs --whole: its challenges depend on all nodes")
    if kind != "window" and sectors != 1:
        raise WrongUsage("--sectors is only for window")
    if kind != "porep" and miner is not None:
        raise WrongUsage("--miner is only for porep")
    if kind == "update" and sector_number is not None:
        raise WrongUsage("--sector-number has no effect on update")
    (parameters,) = parameter_sets(kind, sector)
    if all_nodes and parameters.sector.size > MAX_SECTOR.size:
        raise WrongUsage(
            f"--whole seals sectors of up to {MAX_SECTOR.name}; leave out --whole for {sector}, to "
            "compute only the nodes of the vanilla proofs"
        )
    check_outputs([output], [])
    from quod.cli.display.progress import followed_timeline
    from quod.device.discovery import resolve_device
    from quod.filecoin.sealing.vanilla_files import commit_text, post_text, update_text
    from quod.formats import write_all_atomically

    begin = perf_counter()
    number = _TEST_SECTOR if sector_number is None else sector_number
    opened = resolve_device(device)
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("seal"):
            if kind == "porep":
                text = commit_text(
                    parameters.sector, miner_number(miner, _TEST_MINER), number, seed,
                    opened, all_nodes=all_nodes, synthetic=synthetic,
                )  # fmt: skip
            elif kind == "update":
                text = update_text(parameters.sector, seed, opened)
            else:
                count = None if kind == "winning" else sectors
                text = post_text(parameters.sector, number, seed, opened, window=count)
        with timeline.stage("write"):
            write_all_atomically({output: text.encode()})
    sealed = "a sealed test sector" if all_nodes else "a sector that does not exist"
    seconds = perf_counter() - begin
    note(f"Wrote vanilla proofs of {sealed} in {seconds:.2f} s: {output}", quiet=quiet)
