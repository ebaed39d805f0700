"""Files of vanilla proofs: outputs of C1 in bincode and JSON, proofs of spacetime and of updates.

The structs are those of rust-filecoin-proofs-api (src/seal.rs, src/post.rs) and rust-fil-proofs.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from functools import cache, partial
from typing import Any

from quod.errors import InputError
from quod.filecoin.graph import DRG_PARENTS, EXPANDER_PARENTS
from quod.filecoin.labels import LABEL_PARENTS
from quod.filecoin.node_arrays import NodeArrays
from quod.filecoin.records import (
    Column,
    ColumnProof,
    CommitOutput,
    LabelingProof,
    MerkleProof,
    PathElement,
    PoRepProof,
    PoStSectorProof,
    ReplicaColumnProof,
    SectorProof,
    UpdateChallengeProof,
    UpdatePartitionProof,
)
from quod.filecoin.registered_proofs import (
    REGISTERED_SIZES,
    SEAL_PROOFS,
    SealProof,
    seal_proof,
    seal_proof_named,
)
from quod.filecoin.schema import (
    Bincode,
    Digest,
    Items,
    Node,
    Position,
    Schema,
    Struct,
    Unsigned,
    Variant,
    Wrapper,
)
from quod.filecoin.sectors import BASE_ARITY, NODE_BYTES, SECTORS, WINNING_CHALLENGES, SectorShape
from quod.formats.source import Path, read_small
from quod.formats.strict_json import JsonKind, json_type_of, parse_json
from quod.frozen import frozen
from quod.validation import instance, plain_bytes, whole_number

_MAX_BYTES = 256 << 20
# Outputs of 64 GiB have 330,000 nodes, and 490,000 values if a node counts as one.
_MAX_NODES, _MAX_VALUES = 1 << 20, 1 << 20
_OUTPUT = JsonKind("an output of C1", _MAX_BYTES, max_values=_MAX_VALUES)
# The key of the JSON in base64 in lotus's c1.json.
_WRAPPED = "Phase1Out"
_WRAPPED_TEXT = re.compile(rb'"Phase1Out"\s*:\s*"([A-Za-z0-9+/]*={0,2})"')
_TREES = ("Single", "Sub", "Top")
_U32, _U64 = Unsigned(4), Unsigned(8)
_SIZES = tuple(f"StackedDrg{SECTORS[size].name}V1" for size in REGISTERED_SIZES)


@frozen
class CommitFile:
    """The content of a file of C1.

    sector_number: the sector's number, which only lotus's c1.json has.
    """

    output: CommitOutput
    sector_number: int | None = None


# --- schemas


def _path(arity: int, levels: int) -> Schema:
    element = {"hashes": Items(Node(), arity - 1), "index": Unsigned(8, arity)}
    return Wrapper("path", Items(Struct(PathElement, element), levels))


@cache
def merkle_proof(levels: int, arity: int, sub_arity: int = 0, top_arity: int = 0) -> Schema:
    """Return the schema of Merkle proofs; `levels` and `arity` are those of a base tree."""
    ends: dict[str, Schema] = {"root": Node(), "leaf": Node()}
    paths = {"base_proof": _path(arity, levels)}
    if sub_arity:
        paths["sub_proof"] = _path(sub_arity, 1)
    if top_arity:
        paths["top_proof"] = _path(top_arity, 1)
    struct = Struct(MerkleProof, paths | ends)
    if not sub_arity:
        struct = Struct(
            lambda root, leaf, path: MerkleProof(root, leaf, path),
            ends | {"path": paths["base_proof"]},
        )
    return Wrapper("data", Variant(_TREES, _TREES[len(paths) - 1], struct))


def replica_proof(sector: SectorShape) -> Schema:
    """Return the schema of Merkle proofs in TreeC and TreeRLast."""
    return merkle_proof(sector.base_levels, BASE_ARITY, sector.sub_arity, sector.top_arity)


def data_proof(sector: SectorShape) -> Schema:
    """Return the schema of Merkle proofs in TreeD."""
    return merkle_proof(sector.node_bits, 2)


@cache
def _porep_proof(sector: SectorShape) -> Schema:
    inclusion = replica_proof(sector)
    rows = {"index": _U32, "rows": Items(Node(), sector.layers)}
    column = Struct(
        ColumnProof,
        {"column": Struct(Column, rows, nulls=("_h",)), "inclusion_proof": inclusion},
    )
    columns = {
        "c_x": column,
        "drg_parents": Items(column, DRG_PARENTS),
        "exp_parents": Items(column, EXPANDER_PARENTS),
    }
    label = {"parents": Items(Node(), LABEL_PARENTS), "layer_index": _U32, "node": _U64}
    labeling = Struct(LabelingProof, label)
    return Struct(
        PoRepProof,
        {
            "comm_d_proofs": data_proof(sector),
            "comm_r_last_proof": inclusion,
            "replica_column_proofs": Struct(ReplicaColumnProof, columns),
            "labeling_proofs": Items(labeling, sector.layers),
            "encoding_proof": labeling,
        },
    )


@cache
def _commit_output(proof: SealProof) -> Struct:
    """Return the schema of an output of C1 after its first field, the registered proof."""
    sector, partitions = proof.sector, proof.config().partitions
    proofs = Items(Items(_porep_proof(sector), sector.challenges), partitions)
    return Struct(
        partial(CommitOutput, proof),
        {
            "vanilla_proofs": Variant(_SIZES, f"StackedDrg{sector.name}V1", proofs),
            "comm_r": Node(),
            "comm_d": Node(),
            "replica_id": Node(),
            "seed": Digest(),
            "ticket": Digest(),
        },
    )


@cache
def _post_sector(sector: SectorShape, challenges: int) -> Schema:
    proofs = Items(replica_proof(sector), challenges)
    sectors = {"inclusion_proofs": proofs, "comm_c": Node(), "comm_r_last": Node()}
    vanilla_proof = Wrapper("sectors", Items(Struct(SectorProof, sectors), 1))
    fields = {"sector_id": _U64, "comm_r": Node(), "vanilla_proof": vanilla_proof}
    return Struct(PoStSectorProof, fields)


@cache
def _update_partition(sector: SectorShape) -> Schema:
    replica, shape = replica_proof(sector), sector.update
    proofs = {"proof_r_old": replica, "proof_d_new": data_proof(sector), "proof_r_new": replica}
    return Struct(
        UpdatePartitionProof,
        {
            "comm_c": Node(),
            "apex_leafs": Items(Node(), shape.apex_leaves),
            "challenge_proofs": Items(Struct(UpdateChallengeProof, proofs), shape.challenges),
        },
    )


# --- outputs of C1


def read_commit(path: Path) -> CommitFile:
    """Read an output of C1: bincode, JSON, or lotus's c1.json with the JSON in base64.

    Raises InputError with the file, the field with its indices, and in bincode the offset.
    """
    data = read_small(path, limit=_MAX_BYTES, what=_OUTPUT.what)
    return parse_commit(data, str(path))


def parse_commit(data: bytes, name: str | None = None) -> CommitFile:
    """Parse an output of C1 as `read_commit` does; `name` is its file in errors."""
    data = plain_bytes("an output of C1", data)
    if not data:
        raise InputError("is empty; give an output of C1", path=name, offset=0)
    # A tag below 256 as u32; JSON has no zero bytes.
    if data[1:4] == bytes(3):
        return CommitFile(parse_commit_bincode(data, name))
    document, arrays = _wrapper(data, name) or _json(data, name)
    if not isinstance(document, dict) or _WRAPPED not in document:
        return CommitFile(_commit_of(document, Position(name, arrays)))
    position = Position(name)
    with position.inside(_WRAPPED):
        inner = base64_bytes(document[_WRAPPED], position)
        inner_document, position.arrays = _json(inner, name)
        output = _commit_of(inner_document, position)
    sector_number = _number(document, "SectorNum", position)
    if _number(document, "SectorSize", position) != output.registered_proof.sector.size:
        with position.inside("SectorSize"):
            raise position.error(f"is not that of {output.registered_proof.name}")
    return CommitFile(output, sector_number)


def parse_commit_bincode(data: bytes, name: str | None = None) -> CommitOutput:
    """Parse an output of C1 in bincode."""
    reader = Bincode(plain_bytes("an output of C1", data), name)
    with reader.inside("registered_proof"):
        number = Unsigned(4, len(SEAL_PROOFS)).decode(reader)
    output: CommitOutput = _commit_output(seal_proof(number)).decode(reader)
    reader.end()
    return output


def check_commit_record(output: CommitOutput) -> None:
    """Raise InputError unless an output of C1 has the shape and the canonical nodes of a file."""
    instance("the output", output, CommitOutput, "read it with read_commit")
    if output.registered_proof not in SEAL_PROOFS:
        raise InputError("is not a registered seal proof", section="registered_proof")
    _commit_output(output.registered_proof).check(output, Position(None))


def commit_to_bincode(output: CommitOutput) -> bytes:
    """Return an output of C1 in bincode."""
    proof = output.registered_proof
    out = bytearray(proof.number.to_bytes(4, "little"))
    _commit_output(proof).encode(output, out)
    return bytes(out)


def commit_to_json(output: CommitOutput, sector_number: int | None = None) -> str:
    """Return an output of C1 as JSON; with a sector number as lotus's c1.json."""
    proof = output.registered_proof
    document: dict[str, Any] = {"registered_proof": proof.name}
    text = json.dumps(document | _commit_output(proof).unparse(output), separators=(",", ":"))
    if sector_number is None:
        return text
    encoded = base64.b64encode(text.encode()).decode()
    size = proof.sector.size
    return json.dumps({"SectorNum": sector_number, "Phase1Out": encoded, "SectorSize": size})


def _commit_of(document: object, position: Position) -> CommitOutput:
    if not isinstance(document, dict):
        raise position.error(f"must be an object, not {json_type_of(document)}")
    entries = dict(document)
    with position.inside("registered_proof"):
        name = entries.pop("registered_proof", None)
        if not isinstance(name, str):
            raise position.error("must be the name of a registered seal proof")
        try:
            proof = seal_proof_named(name)
        except InputError as error:
            raise position.error(str(error)) from None
    output: CommitOutput = _commit_output(proof).parse(entries, position)
    return output


def _wrapper(data: bytes, name: str | None) -> tuple[Any, None] | None:
    """Return the document of lotus's c1.json; None for other documents and invalid ones.

    Nearly all of the text is one string, which the parser of strict JSON need not read.
    """
    match = _WRAPPED_TEXT.search(data) if len(data) <= _MAX_BYTES else None
    if match is None:
        return None
    reference = secrets.token_hex(16)
    try:
        document = _parsed_json(
            data[: match.start(1)] + reference.encode() + data[match.end(1) :], name, _OUTPUT
        )
    except InputError:
        # The original text has the offset of the error.
        return None
    if not isinstance(document, dict) or document.get(_WRAPPED) != reference:
        return None
    return document | {_WRAPPED: match[1].decode()}, None


def _json(data: bytes, name: str | None) -> tuple[Any, NodeArrays]:
    """Return a document, and the nodes to which its references point."""
    arrays = NodeArrays(data, _MAX_NODES)
    try:
        return _parsed_json(arrays.text, name, _OUTPUT), arrays
    except InputError:
        if not arrays.count:
            raise
        # The original text has the offset of the error.
        most = _MAX_VALUES + NODE_BYTES * arrays.count
        _parsed_json(data, name, JsonKind(_OUTPUT.what, _MAX_BYTES, max_values=most))
        raise


def _parsed_json(data: bytes, name: str | None, kind: JsonKind) -> Any:
    # `int` itself is called from C; a Python function takes ten times as long.
    return parse_json(data, name or kind.what, kind, integer=int)


def base64_bytes(value: object, position: Position) -> bytes:
    """Return the bytes of a JSON string in base64."""
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise position.error("must be text in base64")


def _number(document: dict[str, Any], key: str, position: Position) -> int:
    position.object(document, ("SectorNum", _WRAPPED, "SectorSize"))
    with position.inside(key):
        return _U64.parse(document[key], position)


# --- proofs of spacetime and of updates


def parse_post_sector(
    data: bytes, sector: SectorShape, challenges: int, name: str | None = None
) -> PoStSectorProof:
    """Parse the vanilla proof of a sector in a proof of spacetime, in bincode.

    challenges: 10 in a WindowPoSt, 66 in a WinningPoSt.
    """
    challenges = whole_number("the number of challenges", challenges, 1, WINNING_CHALLENGES)
    proof: PoStSectorProof = _parsed(_post_sector(sector, challenges), data, name)
    return proof


def check_post_record(
    proof: PoStSectorProof, sector: SectorShape, challenges: int, prefix: str = ""
) -> None:
    """Raise InputError unless a vanilla proof has the shape and the canonical nodes of a file.

    prefix: the beginning of the fields in errors, such as ``proofs[3].``.
    """
    position = Position(None)
    if prefix:
        position.fields.append(prefix.removesuffix("."))
    _post_sector(sector, challenges).check(proof, position)


def post_sector_to_bincode(proof: PoStSectorProof, sector: SectorShape) -> bytes:
    """Return the vanilla proof of a sector of a proof of spacetime in bincode."""
    challenges = len(proof.vanilla_proof[0].inclusion_proofs)
    return _encoded(_post_sector(sector, challenges), proof)


def parse_update_partition(
    data: bytes, sector: SectorShape, name: str | None = None
) -> UpdatePartitionProof:
    """Parse the vanilla proof of a partition of an update, in bincode."""
    proof: UpdatePartitionProof = _parsed(_update_partition(sector), data, name)
    return proof


def check_update_record(proof: UpdatePartitionProof, sector: SectorShape) -> None:
    """Raise InputError unless a vanilla proof has the shape and the canonical nodes of a file."""
    _update_partition(sector).check(proof, Position(None))


def update_partition_to_bincode(proof: UpdatePartitionProof, sector: SectorShape) -> bytes:
    """Return the vanilla proof of a partition of an update in bincode."""
    return _encoded(_update_partition(sector), proof)


def _parsed(schema: Schema, data: bytes, name: str | None) -> Any:
    reader = Bincode(plain_bytes("a vanilla proof", data), name)
    value = schema.decode(reader)
    reader.end()
    return value


def _encoded(schema: Schema, value: object) -> bytes:
    out = bytearray()
    schema.encode(value, out)
    return bytes(out)
