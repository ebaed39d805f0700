"""Registered proofs: the numbers that the chain and the proofs API use for proof types.

A registered seal proof fixes the sector size, the API version, the kind of challenges and the
PoRep id (rust-filecoin-proofs-api src/registry.rs; go-state-types uses the same numbers).
"""

from __future__ import annotations

from enum import Enum

from quod.errors import InputError
from quod.filecoin.sectors import SECTORS, SectorShape
from quod.frozen import frozen
from quod.validation import exact_bytes, shown, whole_number

REGISTERED_SIZES = (2 << 10, 8 << 20, 512 << 20, 32 << 30, 64 << 30)
"""The sector sizes with registered proofs, in the order of the proofs' numbers."""

PROVER_ID_BYTES = POREP_ID_BYTES = 32


class ApiVersion(Enum):
    """The version of the proofs API, which changes graphs and challenges and never a circuit."""

    V1_0 = "1.0.0"
    V1_1 = "1.1.0"
    V1_2 = "1.2.0"


class Challenges(Enum):
    """The derivation of PoRep challenges."""

    INTERACTIVE = "interactive"
    SYNTHETIC = "synthetic"
    NON_INTERACTIVE = "non-interactive"


@frozen
class PoRepConfig:
    """The parameters of a proof of replication.

    sector: the sector's shape.
    porep_id: 32 bytes, which the graph and the replica id depend on.
    api_version: determines the order of DRG parents, and the width of expander indices.
    challenges: the derivation of challenges.
    """

    sector: SectorShape
    porep_id: bytes
    api_version: ApiVersion
    challenges: Challenges = Challenges.INTERACTIVE

    def __post_init__(self) -> None:
        exact_bytes("the PoRep id", self.porep_id, POREP_ID_BYTES)

    @property
    def partitions(self) -> int:
        """The number of Groth16 proofs of a sector."""
        if self.challenges is Challenges.NON_INTERACTIVE:
            return self.sector.non_interactive_partitions
        return self.sector.partitions


@frozen
class SealProof:
    """A registered seal proof.

    number: its number on the chain.
    name: its name in the proofs API, such as StackedDrg32GiBV1_1.
    """

    number: int
    name: str
    sector: SectorShape
    api_version: ApiVersion
    challenges: Challenges

    def config(self, nonce: int = 0) -> PoRepConfig:
        """Return the parameters of its proofs; the network's nonce is 0."""
        return PoRepConfig(
            self.sector, porep_id(self.number, nonce), self.api_version, self.challenges
        )


_SEAL_VERSIONS = (
    ("V1", ApiVersion.V1_0, Challenges.INTERACTIVE),
    ("V1_1", ApiVersion.V1_1, Challenges.INTERACTIVE),
    ("V1_1_Feat_SyntheticPoRep", ApiVersion.V1_2, Challenges.SYNTHETIC),
    ("V1_2_Feat_NonInteractivePoRep", ApiVersion.V1_2, Challenges.NON_INTERACTIVE),
)

SEAL_PROOFS = tuple(
    SealProof(
        version * len(REGISTERED_SIZES) + index,
        f"StackedDrg{SECTORS[size].name}{suffix}",
        SECTORS[size],
        api_version,
        challenges,
    )
    for version, (suffix, api_version, challenges) in enumerate(_SEAL_VERSIONS)
    for index, size in enumerate(REGISTERED_SIZES)
)
"""All registered seal proofs, by number."""


class PoStKind(Enum):
    """A kind of proof of spacetime."""

    WINNING = "winning"
    WINDOW = "window"


@frozen
class PoStProof:
    """A registered proof of spacetime, with its number on the chain."""

    number: int
    kind: PoStKind
    sector: SectorShape
    api_version: ApiVersion

    @property
    def name(self) -> str:
        """The name on the chain, such as StackedDrgWindow32GiBV1_1."""
        version = "V1_1" if self.api_version is ApiVersion.V1_2 else "V1"
        return f"StackedDrg{self.kind.value.capitalize()}{self.sector.name}{version}"


_POST_VERSIONS = (
    (PoStKind.WINNING, ApiVersion.V1_0),
    (PoStKind.WINDOW, ApiVersion.V1_0),
    (PoStKind.WINDOW, ApiVersion.V1_2),
)

POST_PROOFS = tuple(
    PoStProof(version * len(REGISTERED_SIZES) + index, kind, SECTORS[size], api_version)
    for version, (kind, api_version) in enumerate(_POST_VERSIONS)
    for index, size in enumerate(REGISTERED_SIZES)
)
"""All registered proofs of spacetime, by number."""


def seal_proof(number: int) -> SealProof:
    """Return the registered seal proof of a number; raises InputError for other numbers."""
    highest = len(SEAL_PROOFS) - 1
    return SEAL_PROOFS[whole_number("the registered seal proof", number, 0, highest)]


def seal_proof_named(name: str) -> SealProof:
    """Return the registered seal proof of a name; raises InputError for other names."""
    for proof in SEAL_PROOFS:
        if proof.name == name:
            return proof
    raise InputError(f"there is no registered seal proof {shown(name)}")


def post_proof(number: int) -> PoStProof:
    """Return the registered PoSt proof of a number; raises InputError for other numbers."""
    highest = len(POST_PROOFS) - 1
    return POST_PROOFS[whole_number("the registered PoSt proof", number, 0, highest)]


def porep_id(number: int, nonce: int = 0) -> bytes:
    """Return the 32 bytes of a PoRep id: the seal proof's number, the nonce, and zeros."""
    number = seal_proof(number).number
    nonce = whole_number("the nonce", nonce, 0, (1 << 64) - 1)
    return number.to_bytes(8, "little") + nonce.to_bytes(8, "little") + bytes(16)


def prover_id(miner: int) -> bytes:
    """Return the 32 bytes of a prover id: the payload of the miner's ID address, then zeros.

    miner: the miner's actor id, below 2**63; the payload is its unsigned LEB128 encoding.
    """
    number = whole_number("the miner's actor id", miner, 0, (1 << 63) - 1)
    payload = bytearray()
    while number >= 128:
        payload.append(number & 127 | 128)
        number >>= 7
    payload.append(number)
    return bytes(payload).ljust(PROVER_ID_BYTES, b"\0")
