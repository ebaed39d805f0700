"""Benchmarks of Filecoin's proofs: opening parameters, and proofs with the key resident.

The vanilla proofs are of sectors that do not exist (`quod.filecoin.sealing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from quod.bench.measure.harness import Case, Parameter
from quod.bench.measure.settings import StagedSettings
from quod.cli.parameters import Option, WrongUsage
from quod.errors import InputError
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.runtime.timeline import Timeline
    from quod.filecoin.circuits.private_inputs import CircuitInputs
    from quod.filecoin.parameters import ParameterSet
    from quod.filecoin.proving import Prover
    from quod.filecoin.registered_proofs import PoStKind
    from quod.filecoin.sectors import SectorShape

KINDS = ("porep", "window", "winning", "update")

_VANILLA_PROOFS = "vanilla proofs"
_MINER, _SECTOR_NUMBER, _KEY_SEED = 1000, 7, 1
_TICKET, _SEED, _RANDOMNESS = (bytes([number] * 32) for number in (1, 2, 3))


class ProveStatement(Protocol):
    """A function that checks vanilla proofs and proves all partitions of a statement."""

    def __call__(self, prover: Prover, *, timeline: Timeline | None = None) -> bytes: ...


@frozen(eq=False)
class _Work:
    """A statement with its vanilla proofs.

    source: the form of the vanilla proofs.
    partitions: the number of Groth16 proofs.
    inputs: the circuit's inputs of the first partition.
    prove: proves all partitions.
    """

    source: str
    partitions: int
    inputs: CircuitInputs
    prove: ProveStatement


def filecoin(
    settings: StagedSettings,
    proof: Annotated[
        list[str] | None,
        Option(
            metavar="KIND",
            help="porep, window, winning or update; may be repeated. Default: all.",
        ),
    ] = None,
    sector: Annotated[
        list[str] | None,
        Option(metavar="SIZE", help="A sector size; may be repeated. Default: 2KiB."),
    ] = None,
    params: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The folder of the parameters. Default: FIL_PROOFS_PARAMETER_CACHE, or "
            "/var/tmp/filecoin-proof-parameters.",
        ),
    ] = None,
    test_key: Annotated[
        bool,
        Option("--test-key", help="Make insecure keys in memory instead of reading parameters."),
    ] = False,
) -> None:
    """Filecoin's proofs: opening the parameters, and witnesses and proofs with the key resident."""
    for name in proof or []:
        if name not in KINDS:
            raise WrongUsage(f"--proof must be one of {', '.join(KINDS)}, not {name!r}")
    settings.measure(
        "filecoin",
        cases(settings.device, proof or KINDS, sector or ["2KiB"], params, test_key=test_key),
    )


def cases(
    device: str, kinds: Sequence[str], sectors: Sequence[str], folder: Path | None, *,
    test_key: bool = False,
) -> Iterator[Case]:  # fmt: skip
    """Yield the cases of kinds of proofs and sector sizes.

    kinds: names of `KINDS`.
    sectors: names of sector sizes, such as 2KiB.
    folder: the folder of the parameters; None stands for `default_folder`.
    test_key: keys are made in memory instead.
    Raises InputError for an unknown size.
    """
    from quod.filecoin.parameters import ParameterSet, ProofKind

    sets = [
        ParameterSet(ProofKind(kind), _sector_named(sector)) for sector in sectors for kind in kinds
    ]
    for parameters in sets:
        parameters.check_device(device)
    for parameters in sets:
        yield from _cases_of(device, parameters, folder, test_key=test_key)


def _cases_of(
    device: str, parameters: ParameterSet, folder: Path | None, *, test_key: bool
) -> Iterator[Case]:
    """Yield cases for the parameters, the witness and proof of a partition, and the statement."""
    from quod.filecoin.proving import Prover

    def opened(timeline: Timeline | None = None) -> Prover:
        # Nobody relies on the proofs of a benchmark.
        seed = _KEY_SEED if test_key else None
        return Prover(parameters, folder, device, timeline, checked=False, test_seed=seed)

    def open_and_close(timeline: Timeline | None = None) -> None:
        opened(timeline).close()

    names: dict[str, Parameter] = {
        "proof": parameters.kind.value, "sector": parameters.sector.name,
    }  # fmt: skip
    if not test_key:
        yield Case({"what": "open circuit and key", **names}, open_and_close, traced=open_and_close)
    work, prover = _work(parameters), opened()
    circuit, key = prover.circuit, prover.key
    names |= {"constraints": circuit.constraints}

    # The last case needs the memory of this witness.
    held = [prover.witness(work.inputs)]
    yield Case(
        {"what": "witness of a partition", **names},
        lambda: prover.witness(work.inputs),
        unit="ms",
    )
    yield Case(
        {"what": "prove a partition", **names},
        lambda: key.prove(held[0]),
        unit="ms",
        traced=lambda timeline: key.prove(held[0], timeline=timeline),
    )
    held.clear()
    yield Case(
        {"what": f"{work.source} to proof", **names, "partitions": work.partitions},
        partial(work.prove, prover),
        unit="ms",
        traced=lambda timeline: work.prove(prover, timeline=timeline),
    )
    prover.close()


def _sector_named(name: str) -> SectorShape:
    """Return the sector shape of a name such as 32GiB; InputError for other names."""
    from quod.filecoin.sectors import SECTORS

    shapes = {shape.name: shape for shape in SECTORS.values()}
    if name not in shapes:
        raise InputError(f"there is no sector size {name!r}; choose one of {', '.join(shapes)}")
    return shapes[name]


def _work(parameters: ParameterSet) -> _Work:
    """Return a statement that needs these parameters, with vanilla proofs made for it."""
    from quod.filecoin.parameters import ProofKind
    from quod.filecoin.registered_proofs import PoStKind

    sector = parameters.sector
    if parameters.kind is ProofKind.POREP:
        return _porep_work(sector)
    if parameters.kind is ProofKind.UPDATE:
        return _update_work(sector)
    return _post_work(sector, PoStKind(parameters.kind.value))


def _porep_work(sector: SectorShape) -> _Work:
    from quod.device import open_device
    from quod.filecoin.circuits.private_inputs import porep_private_inputs
    from quod.filecoin.files import commit_to_json, parse_commit
    from quod.filecoin.proving import prove_commit
    from quod.filecoin.registered_proofs import SEAL_PROOFS, ApiVersion
    from quod.filecoin.sealing import sparse_commit

    proof = next(
        proof
        for proof in SEAL_PROOFS
        if proof.sector is sector and proof.api_version is ApiVersion.V1_1
    )
    output = sparse_commit(
        proof, miner=_MINER, sector_number=_SECTOR_NUMBER, ticket=_TICKET, seed=_SEED,
        device=open_device("cpu"),
    )  # fmt: skip
    c1_json = commit_to_json(output, _SECTOR_NUMBER).encode()
    return _Work(
        "C1 JSON", proof.config().partitions, porep_private_inputs(output, 0),
        lambda prover, timeline=None: prove_commit(
            prover, parse_commit(c1_json).output, timeline=timeline
        ),
    )  # fmt: skip


def _post_work(sector: SectorShape, kind: PoStKind) -> _Work:
    from quod.device import open_device
    from quod.filecoin.challenges import window_challenges, winning_challenges
    from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
    from quod.filecoin.circuits.private_inputs import post_private_inputs
    from quod.filecoin.proving import prove_post
    from quod.filecoin.registered_proofs import POST_PROOFS, PoStKind
    from quod.filecoin.sealing import sparse_posts
    from quod.filecoin.statements import PoStSector, PoStStatement

    # The last registered proof of a kind has the current API version.
    *_, proof = (proof for proof in POST_PROOFS if proof.sector is sector and proof.kind is kind)
    if kind is PoStKind.WINNING:
        circuit = FallbackPoStCircuit.winning(sector)
        challenges = {_SECTOR_NUMBER: winning_challenges(sector, _RANDOMNESS, _SECTOR_NUMBER)}
    else:
        circuit = FallbackPoStCircuit.window(sector)
        challenges = {
            number: window_challenges(sector, proof.api_version, _RANDOMNESS, number, number)
            for number in range(sector.window_sectors)
        }
    proofs = sparse_posts(sector, challenges, device=open_device("cpu"))
    sectors = tuple(PoStSector(each.sector_id, each.comm_r) for each in proofs)
    statement = PoStStatement(proof, _RANDOMNESS, sectors)
    return _Work(
        _VANILLA_PROOFS,
        1,
        post_private_inputs(circuit, proofs),
        lambda prover, timeline=None: prove_post(prover, statement, proofs, timeline),
    )


def _update_work(sector: SectorShape) -> _Work:
    from quod.device import open_device
    from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
    from quod.filecoin.circuits.private_inputs import update_private_inputs
    from quod.filecoin.proving import prove_update
    from quod.filecoin.sealing import uniform_update
    from quod.filecoin.updates import k_and_h_select

    updated = uniform_update(sector, device=open_device("cpu"))
    statement, proofs = updated.statement, updated.partition_proofs
    commitments = statement.comm_r_old, statement.comm_d_new, statement.comm_r_new
    circuit = EmptySectorUpdateCircuit.of(sector)
    return _Work(
        _VANILLA_PROOFS,
        statement.partitions,
        update_private_inputs(circuit, proofs[0], k_and_h_select(sector, 0, None), *commitments),
        lambda prover, timeline=None: prove_update(prover, statement, proofs, timeline),
    )
