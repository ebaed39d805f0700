"""quod filecoin verify: proofs of statements, and of records of sealed sectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import show_valid, warn
from quod.cli.filecoin.options import (
    Miner,
    Params,
    SectorNumber,
    miner_number,
    number_of_sector,
    sector_of,
)
from quod.cli.parameters import Argument, Device, InsecureTestKey, Option, Quiet, WrongUsage
from quod.wording import counted

if TYPE_CHECKING:
    from quod.filecoin.parameters.identifiers import ParameterSet
    from quod.filecoin.seal_records import SealRecord
    from quod.filecoin.statement_files import StatementFile
    from quod.filecoin.statements import Statement
    from quod.groth16 import VerifyingKey

# The maximum number of invalid proofs that an error names.
_MAX_NAMED = 20


def verify(
    statement: Annotated[
        Path, Argument("STATEMENT", "Statement, vanilla proofs or output of C1; or seal records.")
    ],
    proof: Annotated[
        Path | None, Argument("[PROOF]", "Proof of the partitions; seal records contain theirs.")
    ] = None,
    vk: Annotated[
        Path | None,
        Option("--vk", metavar="FILE", help="Verifying key, also one of another network."),
    ] = None,
    params: Params = None,
    sector: Annotated[
        str | None, Option("--sector", metavar="SIZE", help="Verify records of this size only.")
    ] = None,
    miner: Miner = None,
    sector_number: SectorNumber = None,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Verify a proof of a statement. The exit code is 0 only if it is valid, and 6 if not.

    The replica id in an output of C1 is checked with --miner, and otherwise trusted.
    """
    if vk is not None and params is not None:
        raise WrongUsage("--vk and --params exclude each other")
    if sector_number is not None and miner is None:
        raise WrongUsage("--sector-number requires --miner")
    from quod.errors import VerificationError, naming_file
    from quod.filecoin.describe import is_record_file
    from quod.filecoin.proving import verify_proof
    from quod.filecoin.seal_records import parse_seal_records
    from quod.filecoin.statement_files import STATEMENT, parse_statement
    from quod.formats.strict_json import read_json

    keys = _Keys(vk, params, device, insecure_test_key)
    # Read once, as a pipe cannot be read again.
    data, name = read_json(statement, STATEMENT), str(statement)
    if is_record_file(data):
        if proof is not None or miner is not None:
            raise WrongUsage("seal records contain their proofs and miners; omit PROOF and --miner")
        _verify_records(parse_seal_records(data, name), name, sector, keys, quiet=quiet)
        return
    if proof is None:
        raise WrongUsage("missing PROOF; only seal records contain proofs")
    if sector is not None:
        raise WrongUsage("--sector is only for seal records")
    file = parse_statement(data, name)
    if miner is not None:
        _check_identity(file, name, miner_number(miner, 0), sector_number)
    key = keys.of(file.statement.parameters)
    proof_bytes = _read_proof(proof, file.statement)
    with naming_file(proof):
        is_valid = verify_proof(key, file.statement, proof_bytes)
    if not is_valid:
        raise VerificationError(
            f"{proof}: not valid for this statement and this key; do not accept it"
        )
    show_valid(quiet=quiet)


class _Keys:
    """The verifying keys of a command, by parameter set."""

    def __init__(
        self, vk: Path | None, params: Path | None, device: str, allow_insecure: bool
    ) -> None:
        self._vk, self._params = vk, params
        self._device, self._allow_insecure = device, allow_insecure

    def of(self, parameters: ParameterSet) -> VerifyingKey:
        """Read the key of a set; warn about a key that is neither the network's nor a test key."""
        from quod.filecoin.parameters.files import (
            Origin,
            origin_of,
            parameter_file,
            read_identified_key,
            read_verifying_key,
        )
        from quod.formats.source import identity_of

        insecure = self._allow_insecure
        if self._vk is None:
            return read_verifying_key(
                parameters, self._params, self._device, allow_insecure=insecure
            )
        file = parameter_file(parameters, self._vk, ("vk", "params"))
        identity = identity_of(file)
        if origin_of(parameters, file) is Origin.OTHER:
            warn(
                f"{file} is not the network's key of {parameters.name}; rely on proofs only as far "
                "as you trust the source of the key"
            )
        return read_identified_key(
            parameters, file, identity, self._device, allow_insecure=insecure
        )


def _read_proof(path: Path, statement: Statement) -> bytes:
    """Read a proof, which has 192 bytes for each partition."""
    from quod.errors import InputError
    from quod.formats.source import read_small

    data = read_small(path, limit=statement.proof_bytes, what="a proof of this statement")
    if len(data) != statement.proof_bytes:
        raise InputError(
            f"must be {statement.proof_bytes} bytes, 192 for each partition, not {len(data)}",
            path=str(path),
        )
    return data


def _check_identity(file: StatementFile, name: str, miner: int, sector_number: int | None) -> None:
    """Check that the replica id of an output of C1 is that of a miner's sector."""
    from quod.errors import InputError, naming_file
    from quod.filecoin.checks.commit import check_replica_id

    if file.output is None:
        raise InputError("is not an output of C1; omit --miner", path=name)
    number = number_of_sector(file, sector_number, name)
    with naming_file(name):
        check_replica_id(file.output, miner, number)


def _verify_records(
    records: list[SealRecord], name: str, sector: str | None, keys: _Keys, *, quiet: bool
) -> None:
    """Verify the proofs of sealed sectors, those of each parameter set as a batch."""
    from quod.errors import InputError, VerificationError
    from quod.filecoin.proving import verify_proofs
    from quod.filecoin.statements import SealStatement

    shape = None if sector is None else sector_of(sector)
    chosen = [
        (index, record) for index, record in enumerate(records)
        if shape is None or record.config.sector == shape
    ]  # fmt: skip
    if not chosen:
        raise InputError("has no records of this sector size", path=name)
    sets: dict[ParameterSet, list[tuple[int, Statement, bytes]]] = {}
    for index, record in chosen:
        if not record.is_aggregate:
            statement = SealStatement.of_record(record)
            sets.setdefault(statement.parameters, []).append((index, statement, record.proof))
    invalid = []
    for parameters, members in sets.items():
        key = keys.of(parameters)
        verdicts = verify_proofs(key, [(statement, proof) for _, statement, proof in members])
        for (index, _, _), verdict in zip(members, verdicts, strict=True):
            if not verdict:
                invalid.append(index)
            if verdict.error is not None:
                warn(f"the proof of record {index} is malformed: {verdict.error}")
    proofs = sum(map(len, sets.values()))
    if invalid:
        indices = ", ".join(map(str, sorted(invalid)[:_MAX_NAMED]))
        ellipsis = ", ..." if len(invalid) > _MAX_NAMED else ""
        raise VerificationError(
            f"{name}: {len(invalid)} of {proofs} proofs are not valid (records counted from 0: "
            f"{indices}{ellipsis}); do not accept them"
        )
    if aggregates := len(chosen) - proofs:
        others = f"; the other {_are_valid(proofs)}" if proofs else ""
        raise InputError(
            f"has {counted(aggregates, 'aggregate')} of non-interactive PoReps, which are not "
            f"verified{others}",
            path=name,
        )
    show_valid(quiet=quiet, what=f"{'the' if proofs == 1 else 'all'} {_are_valid(proofs)}")


def _are_valid(count: int) -> str:
    return "proof is valid" if count == 1 else f"{count} proofs are valid"
