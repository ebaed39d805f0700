"""Descriptions of Filecoin's files: outputs of C1, statements, records, proofs and keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from quod.errors import InputError
from quod.filecoin.checks.aggregate import check_aggregate, has_aggregate_size
from quod.filecoin.parameters.digests import NETWORK_SETS, network_set
from quod.filecoin.parameters.files import AnyPath, digest_of, weakness_in
from quod.filecoin.seal_records import PROOF_BYTES, SealRecord, parse_seal_records
from quod.filecoin.statement_files import STATEMENT, StatementFile, parse_statement
from quod.filecoin.statements import PoStStatement
from quod.formats.bellman import BellmanVerifyingKey, begins_as_bellman_key
from quod.formats.inspect import contents
from quod.formats.source import check_length
from quod.frozen import fields_of
from quod.groth16.encodings.bellman import proofs_from_bytes
from quod.validation import file_path

_MAX_PROOF_BYTES = PROOF_BYTES << 10
_MAX_CHECKED_BYTES = 1 << 26
_RECORD_KEY = b'"porep_config"'
_START_BYTES = 1 << 16
_KINDS_BY_KEY = {
    _RECORD_KEY: "a file of seal records",
    b'"Phase1Out"': "an output of C1",
    b'"registered_proof"': "an output of C1 or a statement of a sealed sector",
    b'"registered_post_proof"': "a statement of a proof of spacetime",
    b'"comm_r_old"': "a statement of an update",
}

Description = dict[str, object]


def describe_file(path: AnyPath) -> Description:
    """Describe a file as a mapping in display order, with ``file``, ``kind`` and ``bytes``.

    Raises InputError, with the field, for a file that is malformed or of an unknown kind.
    """
    name = file_path(path)
    data = contents(name)
    if begins_as_bellman_key(data):
        description = _key(data, name)
    else:
        check_length(len(data), STATEMENT.max_bytes, STATEMENT.what, name)
        content = bytes(data)
        if is_record_file(content):
            description = _records(parse_seal_records(content, name))
        elif _is_proof(content):
            description = _proof(content, name)
        elif has_aggregate_size(len(content)):
            description = {"kind": "aggregate of proofs", "proofs": check_aggregate(content, name)}
        else:
            description = _statement(parse_statement(content, name))
    return {"file": name, "kind": description.pop("kind"), "bytes": len(data), **description}


def is_record_file(data: bytes) -> bool:
    """Return true for records of sealed sectors, of which each has its configuration."""
    return _RECORD_KEY in data[:_START_BYTES]


def kind_by_start(data: memoryview) -> str | None:
    """Return the kind of a JSON file of Filecoin by the keys in its first bytes, or None."""
    start = bytes(data[:_START_BYTES])
    if start.lstrip()[:1] != b"{":
        return None
    return next((kind for key, kind in _KINDS_BY_KEY.items() if key in start), None)


def _key(data: memoryview, name: str) -> Description:
    digest = digest_of(data)
    network = network_set(digest)
    if network is not None and len(data) > _MAX_CHECKED_BYTES:
        # The digest shows that the points are those of the ceremony.
        key = BellmanVerifyingKey.open_start(name)
    else:
        key = BellmanVerifyingKey.parse(data, name)
    weakness = weakness_in(key)
    return {
        "kind": "bellman verifying key or parameters",
        "named_as": _set_named(Path(name).name),
        "digest": digest,
        "network": network,
        "public": key.public,
        "insecure": False if weakness is None else weakness.reason,
    }


def _set_named(name: str) -> str | None:
    """Return the set that has files of this name, or None."""
    stem = name.rpartition(".")[0]
    for parameters in NETWORK_SETS:
        if parameters.file_name("vk").rpartition(".")[0] == stem:
            return parameters.name
    return None


def _records(records: Sequence[SealRecord]) -> Description:
    sizes = Counter(record.config.sector.name for record in records)
    return {
        "kind": "sealed sectors with proofs",
        "records": len(records),
        "aggregates": sum(record.is_aggregate for record in records),
        "sector_sizes": dict(sizes),
    }


def _is_proof(data: bytes) -> bool:
    """Return true for concatenated proofs: their points have a flag in the first bit."""
    return not len(data) % PROOF_BYTES and len(data) <= _MAX_PROOF_BYTES and data[0] >= 1 << 7


def _proof(data: bytes, name: str) -> Description:
    for proof in proofs_from_bytes(data, name=name):
        if isinstance(proof, InputError):
            raise proof
    return {"kind": "proof", "partitions": len(data) // PROOF_BYTES}


def _statement(file: StatementFile) -> Description:
    statement = file.statement
    description: Description = {
        "kind": "statement",
        "parameters": statement.parameters.name,
        "partitions": statement.partitions,
        "proof_bytes": statement.proof_bytes,
        "vanilla_proofs": len(file.vanilla_proofs),
    }
    if file.output is not None:
        description["kind"] = "output of C1"
        description["vanilla_proofs"] = sum(map(len, file.output.vanilla_proofs))
        description["registered_proof"] = file.output.registered_proof.name
        description["sector_number"] = file.sector_number
    if isinstance(statement, PoStStatement):
        description["registered_post_proof"] = statement.proof.number
        description["registered_proof"] = statement.proof.name
        description["sectors"] = len(statement.sectors)
    return description | {
        name: value.hex() for name, value in fields_of(statement).items() if type(value) is bytes
    }
