"""Records of sealed sectors with their proofs, as in rust-fil-proofs's regression tests.

A file is JSON Lines, an object per record
(filecoin-proofs/tests/seal_regression_records-*.json).
"""

from __future__ import annotations

from typing import Any

from quod.errors import InputError
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.nodes import replica_id
from quod.filecoin.public_inputs import porep_inputs
from quod.filecoin.registered_proofs import ApiVersion, Challenges, PoRepConfig
from quod.filecoin.schema import Digest, Node, Position, Unsigned
from quod.filecoin.sectors import sector_shape
from quod.formats.source import Path, read_small
from quod.formats.strict_json import JsonKind, json_type_of, parse_json, shown
from quod.frozen import frozen
from quod.validation import plain_bytes

PROOF_BYTES = 192
AGGREGATE_BYTES = {13: 14164, 126: 23092}
"""Bytes of an aggregate proof by the number of aggregated proofs."""

_RECORDS = JsonKind("a file of sealed sectors", 64 << 20, max_values=1 << 24)
_API_VERSIONS = {
    "V1_0_0": ApiVersion.V1_0,
    "V1_1_0": ApiVersion.V1_1,
    "V1_2_0": ApiVersion.V1_2,
}
_FEATURES = {
    (): Challenges.INTERACTIVE,
    ("SyntheticPoRep",): Challenges.SYNTHETIC,
    ("NonInteractivePoRep",): Challenges.NON_INTERACTIVE,
}


@frozen
class SealRecord:
    """A sealed sector with its proof.

    proof: the partitions' Groth16 proofs of 192 bytes, or an aggregate of a non-interactive PoRep.
    """

    config: PoRepConfig
    comm_r: bytes
    comm_d: bytes
    prover_id: bytes
    sector_number: int
    ticket: bytes
    seed: bytes
    proof: bytes

    @property
    def replica_id(self) -> bytes:
        """The replica id, which follows from the other fields."""
        return replica_id(
            self.prover_id, self.sector_number, self.ticket, self.comm_d, self.config.porep_id
        )

    @property
    def is_aggregate(self) -> bool:
        """True if `proof` is an aggregate."""
        return self.config.challenges is Challenges.NON_INTERACTIVE

    @property
    def partition_proofs(self) -> list[bytes]:
        """The Groth16 proofs of the partitions; none of an aggregate."""
        if self.is_aggregate:
            return []
        starts = range(0, len(self.proof), PROOF_BYTES)
        return [self.proof[start : start + PROOF_BYTES] for start in starts]

    def public_inputs(self, partition: int) -> list[int]:
        """Return the public inputs of a partition, without the constant 1."""
        identity = self.replica_id
        challenges = porep_challenges(self.config, identity, self.comm_r, self.seed, partition)
        return porep_inputs(self.config, identity, self.comm_d, self.comm_r, challenges)


def read_seal_records(path: Path) -> list[SealRecord]:
    """Read a file of sealed sectors; raises InputError with the line and the field."""
    data = read_small(path, limit=_RECORDS.max_bytes, what=_RECORDS.what)
    return parse_seal_records(data, str(path))


def parse_seal_records(data: bytes, name: str | None = None) -> list[SealRecord]:
    """Parse sealed sectors in JSON Lines; `name` is their file in errors."""
    records = []
    for number, line in enumerate(plain_bytes("sealed sectors", data).splitlines(), 1):
        if line.strip():
            position = Position(name)
            with position.inside(f"line {number}"):
                document = parse_json(line, f"{name or _RECORDS.what}, line {number}", _RECORDS)
                records.append(_record(document, position))
    return records


def _record(document: object, position: Position) -> SealRecord:
    digests = {"comm_r": Node(), "comm_d": Node(), "prover_id": Digest()}
    digests |= {"ticket": Digest(), "seed": Digest()}
    keys = ("porep_config", "sector_id", "proof", *digests)
    entries, values = position.object(document, keys), {}
    with position.inside("porep_config"):
        config = _config(entries["porep_config"], position)
    for key, schema in digests.items():
        with position.inside(key):
            values[key] = schema.parse(entries[key], position)
    with position.inside("sector_id"):
        sector_number = Unsigned(8).parse(entries["sector_id"], position)
    with position.inside("proof"):
        proof = _proof(entries["proof"], config, position)
    return SealRecord(config, sector_number=sector_number, proof=proof, **values)


def _config(document: object, position: Position) -> PoRepConfig:
    keys = ("sector_size", "partitions", "porep_id", "api_version", "api_features")
    entries = position.object(document, keys)
    with position.inside("sector_size"):
        try:
            sector = sector_shape(entries["sector_size"])
        except InputError as error:
            raise position.error(str(error)) from None
    with position.inside("porep_id"):
        porep_id = Digest().parse(entries["porep_id"], position)
    with position.inside("api_version"):
        api_version = _choice(_API_VERSIONS, entries["api_version"], position)
    with position.inside("api_features"):
        features = entries["api_features"]
        if not isinstance(features, list):
            raise position.error(f"must be a list, not {json_type_of(features)}")
        challenges = _choice(_FEATURES, tuple(features), position)
    config = PoRepConfig(sector, porep_id, api_version, challenges)
    with position.inside("partitions"):
        if entries["partitions"] != config.partitions:
            raise position.error(f"must be {config.partitions}, not {shown(entries['partitions'])}")
    return config


def _choice(choices: dict[Any, Any], value: object, position: Position) -> Any:
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise position.error(f"{shown(value)} is not supported") from None


def _proof(value: object, config: PoRepConfig, position: Position) -> bytes:
    size = PROOF_BYTES * config.partitions
    if config.challenges is Challenges.NON_INTERACTIVE:
        size = AGGREGATE_BYTES[config.partitions]
    if isinstance(value, list) and len(value) == size and {*map(type, value)} == {int}:
        try:
            return bytes(value)
        except ValueError:
            pass
    raise position.error(f"must be a list of {size} bytes")
