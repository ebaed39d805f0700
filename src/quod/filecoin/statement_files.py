"""Files of statements and of vanilla proofs: outputs of C1, and JSON with bytes in hex and base64.

A JSON object's keys determine its kind:

- a sealed sector: registered_proof (number or name), miner, sector_number, ticket, seed, comm_d,
  comm_r;
- a proof of spacetime: registered_post_proof (number), randomness, and sectors, each with sector_id
  and comm_r, or vanilla_proofs, which contain both;
- an update: sector_size, comm_r_old, comm_d_new, comm_r_new, and possibly vanilla_proofs.

Digests and nodes are 32 bytes in hex. `vanilla_proofs` has the bincode of each sector or partition
in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from quod.errors import InputError
from quod.filecoin.files import (
    base64_bytes,
    parse_commit,
    parse_post_sector,
    parse_update_partition,
    post_sector_to_bincode,
    update_partition_to_bincode,
)
from quod.filecoin.nodes import replica_id
from quod.filecoin.records import CommitOutput, PoStSectorProof, UpdatePartitionProof
from quod.filecoin.registered_proofs import (
    PoStKind,
    SealProof,
    post_proof,
    prover_id,
    seal_proof,
    seal_proof_named,
)
from quod.filecoin.schema import Position
from quod.filecoin.sectors import (
    NODE_BYTES,
    WINDOW_CHALLENGES,
    WINNING_CHALLENGES,
    sector_shape,
)
from quod.filecoin.statements import (
    PoStSector,
    PoStStatement,
    SealStatement,
    Statement,
    UpdateStatement,
)
from quod.formats.source import Path, read_small
from quod.formats.strict_json import JsonKind, json_type_of, parse_json
from quod.frozen import frozen
from quod.validation import bytes_of_hex, plain_bytes, whole_number

T = TypeVar("T")

STATEMENT = JsonKind("a statement", 256 << 20, max_values=1 << 20)
_SEAL = ("registered_proof", "miner", "sector_number", "ticket", "seed", "comm_d", "comm_r")
_POST = ("registered_post_proof", "randomness")
_UPDATE = ("sector_size", "comm_r_old", "comm_d_new", "comm_r_new")
_SECTOR = ("sector_id", "comm_r")
_VANILLA_PROOFS = "vanilla_proofs"


@frozen
class StatementFile:
    """The content of a file: a statement, and its vanilla proofs if the file has them.

    output: an output of C1.
    sector_number: the number in lotus's c1.json.
    vanilla_proofs: those of the sectors of a proof of spacetime or of the partitions of an update.
    """

    statement: Statement
    output: CommitOutput | None = None
    sector_number: int | None = None
    vanilla_proofs: tuple[PoStSectorProof, ...] | tuple[UpdatePartitionProof, ...] = ()


def read_statement(path: Path) -> StatementFile:
    """Read a statement or vanilla proofs; raises InputError with the file and the field."""
    data = read_small(path, limit=STATEMENT.max_bytes, what=STATEMENT.what)
    return parse_statement(data, str(path))


def parse_statement(data: bytes, name: str | None = None) -> StatementFile:
    """Parse a statement as `read_statement` does; `name` is its file in errors."""
    data = plain_bytes("a statement", data)
    if _is_commit(data):
        file = parse_commit(data, name)
        position = Position(name)
        statement = _built(position, lambda: SealStatement.of_output(file.output))
        return StatementFile(statement, file.output, file.sector_number)
    document = parse_json(data, name or STATEMENT.what, STATEMENT)
    position = Position(name)
    if not isinstance(document, dict):
        raise position.error(f"must be an object, not {json_type_of(document)}")
    if "registered_post_proof" in document:
        return _post(document, position)
    if "sector_size" in document:
        return _update(document, position)
    return StatementFile(_seal(document, position))


def _is_commit(data: bytes) -> bool:
    """Return true for an output of C1 in bincode, JSON or lotus's wrapper."""
    # A tag below 256 as u32; JSON has no zero bytes.
    is_json = all(key in data for key in (b'"registered_proof"', b'"vanilla_proofs"'))
    return data[1:4] == bytes(3) or is_json or b'"Phase1Out"' in data


def _seal(document: dict[str, Any], position: Position) -> SealStatement:
    position.object(document, _SEAL)
    proof = _field(document, "registered_proof", position, _seal_proof)
    prover = _field(document, "miner", position, prover_id)
    number = _field(document, "sector_number", position, _u64)
    ticket, seed, comm_d, comm_r = (_digest(document, key, position) for key in _SEAL[3:])
    config = proof.config()
    identity = replica_id(prover, number, ticket, comm_d, config.porep_id)
    return _built(position, lambda: SealStatement(config, identity, comm_d, comm_r, seed))


def _post(document: dict[str, Any], position: Position) -> StatementFile:
    names = [name for name in ("sectors", _VANILLA_PROOFS) if name in document]
    position.object(document, (*_POST, *(names or ["sectors"])))
    proof = _field(document, "registered_post_proof", position, post_proof)
    randomness = _digest(document, "randomness", position)
    count = WINNING_CHALLENGES if proof.kind is PoStKind.WINNING else WINDOW_CHALLENGES
    vanilla_proofs = _vanilla_proofs(
        document, position, lambda data: parse_post_sector(data, proof.sector, count)
    )
    if "sectors" in document:
        sectors = tuple(_items(document, "sectors", position, lambda each: _sector(each, position)))
    else:
        sectors = tuple(PoStSector(each.sector_id, each.comm_r) for each in vanilla_proofs)
    statement = _built(position, lambda: PoStStatement(proof, randomness, sectors))
    return StatementFile(statement, vanilla_proofs=vanilla_proofs)


def _sector(entry: object, position: Position) -> PoStSector:
    fields = position.object(entry, _SECTOR)
    number = _field(fields, "sector_id", position, _u64)
    comm_r = _digest(fields, "comm_r", position)
    return PoStSector(number, comm_r)


def _update(document: dict[str, Any], position: Position) -> StatementFile:
    keys = (*_UPDATE, _VANILLA_PROOFS) if _VANILLA_PROOFS in document else _UPDATE
    position.object(document, keys)
    sector = _field(document, "sector_size", position, sector_shape)
    old, data, new = (_digest(document, key, position) for key in _UPDATE[1:])
    vanilla_proofs = _vanilla_proofs(
        document, position, lambda data: parse_update_partition(data, sector)
    )
    statement = _built(position, lambda: UpdateStatement(sector, old, data, new))
    return StatementFile(statement, vanilla_proofs=vanilla_proofs)


def _vanilla_proofs(
    document: dict[str, Any], position: Position, parse: Callable[[bytes], T]
) -> tuple[T, ...]:
    if _VANILLA_PROOFS not in document:
        return ()
    return tuple(
        _items(
            document, _VANILLA_PROOFS, position, lambda text: parse(base64_bytes(text, position))
        )
    )


# --- fields, whose errors name the file and the field


def _items(
    document: dict[str, Any], key: str, position: Position, parse: Callable[[Any], T]
) -> list[T]:
    """Return the parsed entries of a list."""
    entries, items = document[key], []
    with position.inside(key):
        if not isinstance(entries, list):
            raise position.error(f"must be a list, not {json_type_of(entries)}")
        position.fields.append(0)
        for index, entry in enumerate(entries):
            position.fields[-1] = index
            items.append(_built(position, partial(parse, entry)))
        position.fields.pop()
    return items


def _field(
    document: Mapping[str, Any], key: str, position: Position, parse: Callable[[Any], T]
) -> T:
    """Return a parsed entry."""
    with position.inside(key):
        return _built(position, lambda: parse(document[key]))


def _digest(document: Mapping[str, Any], key: str, position: Position) -> bytes:
    """Return 32 bytes that are given in hex."""
    with position.inside(key):
        digest = bytes_of_hex(document[key], NODE_BYTES)
        if digest is None:
            raise position.error(f"must be {NODE_BYTES} bytes in hex")
        return digest


def _built(position: Position, make: Callable[[], T]) -> T:
    """Return the result of a function; its InputError then names the file and the field."""
    try:
        return make()
    except InputError as error:
        if type(error) is not InputError or error.path is not None:
            raise
        raise position.relocated(error) from None


def _seal_proof(value: object) -> SealProof:
    return seal_proof_named(value) if isinstance(value, str) else seal_proof(value)  # type: ignore[arg-type]


def _u64(value: object) -> int:
    return whole_number("the number", value, 0, (1 << 64) - 1)


# --- writing


def post_to_json(statement: PoStStatement, proofs: Sequence[PoStSectorProof] = ()) -> str:
    """Return the JSON of a proof of spacetime's statement, with vanilla proofs if any."""
    proof = statement.proof
    document: dict[str, Any] = {
        "registered_post_proof": proof.number,
        "randomness": statement.randomness.hex(),
    }
    if proofs:
        encoded = (post_sector_to_bincode(each, proof.sector) for each in proofs)
        document[_VANILLA_PROOFS] = [base64.b64encode(each).decode() for each in encoded]
    else:
        document["sectors"] = [
            {"sector_id": sector.sector_id, "comm_r": sector.comm_r.hex()}
            for sector in statement.sectors
        ]
    return json.dumps(document, indent=1) + "\n"


def update_to_json(statement: UpdateStatement, proofs: Sequence[UpdatePartitionProof] = ()) -> str:
    """Return the JSON of an update's statement, with vanilla proofs if any."""
    sector = statement.sector
    document: dict[str, Any] = {"sector_size": sector.size}
    document |= {key: getattr(statement, key).hex() for key in _UPDATE[1:]}
    if proofs:
        encoded = (update_partition_to_bincode(each, sector) for each in proofs)
        document[_VANILLA_PROOFS] = [base64.b64encode(each).decode() for each in encoded]
    return json.dumps(document, indent=1) + "\n"
