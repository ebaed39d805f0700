"""Digests of the network's parameters: the first 16 bytes of the BLAKE2b-512 of a file, in hex.

The digests are those of rust-fil-proofs (filecoin-proofs/parameters.json), whose parameters were
made in a ceremony.
"""

from __future__ import annotations

from quod.filecoin.parameters.identifiers import ParameterSet, ProofKind
from quod.filecoin.sectors import sector_shape

DIGEST_BYTES = 16
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

# The kind, the sector size, and the digests of the .params and of the .vk file.
_ROWS = (
    (
        ProofKind.POREP,
        2 * _KIB,
        "434fb1338ecfaf0f59256f30dde4968f",
        "dc1ade9929ade1708238f155343044ac",
    ),
    (
        ProofKind.POREP,
        8 * _MIB,
        "09e612e4eeb7a0eb95679a88404f960c",
        "b687beb9adbd9dabe265a7e3620813e4",
    ),
    (
        ProofKind.POREP,
        512 * _MIB,
        "6c77597eb91ab936c1cef4cf19eba1b3",
        "065179da19fbe515507267677f02823e",
    ),
    (
        ProofKind.POREP,
        32 * _GIB,
        "6a388072a518cf46ebd661f5cc46900a",
        "0c7b4aac1c40fdb7eb82bc355b41addf",
    ),
    (
        ProofKind.POREP,
        64 * _GIB,
        "1801f8a6e1b00bceb00cc27314bb5ce3",
        "a89884252c04c298d0b3c81bfd884164",
    ),
    (
        ProofKind.WINDOW,
        2 * _KIB,
        "7610b9f82bfc88405b7a832b651ce2f6",
        "0e0958009936b9d5e515ec97b8cb792d",
    ),
    (
        ProofKind.WINDOW,
        8 * _MIB,
        "c49499bb76a0762884896f9683403f55",
        "34d4feeacd9abf788d69ef1bb4d8fd00",
    ),
    (
        ProofKind.WINDOW,
        512 * _MIB,
        "1a7d4a9c8a502a497ed92a54366af33f",
        "4dae975de4f011f101f5a2f86d1daaba",
    ),
    (
        ProofKind.WINDOW,
        32 * _GIB,
        "2cf49eb26f1fee94c85781a390ddb4c8",
        "0f8ec542485568fa3468c066e9fed82b",
    ),
    (
        ProofKind.WINDOW,
        64 * _GIB,
        "3810b7780ac0e299b22ae70f1f94c9bc",
        "59d2bf1857adc59a4f08fcf2afaa916b",
    ),
    (
        ProofKind.WINNING,
        2 * _KIB,
        "82c88066be968bb550a05e30ff6c2413",
        "ffd79788d614d27919ae5bd2d94eacb6",
    ),
    (
        ProofKind.WINNING,
        8 * _MIB,
        "700171ecf7334e3199437c930676af82",
        "79ebb55f56fda427743e35053edad8fc",
    ),
    (
        ProofKind.WINNING,
        512 * _MIB,
        "827359440349fe8f5a016e7598993b79",
        "bd2cd62f65c1ab84f19ca27e97b7c731",
    ),
    (
        ProofKind.WINNING,
        32 * _GIB,
        "d84f79a16fe40e9e25a36e2107bb1ba0",
        "fc02943678dd119e69e7fab8420e8819",
    ),
    (
        ProofKind.WINNING,
        64 * _GIB,
        "2170a91ad5bae22ea61f2ea766630322",
        "6d3789148fb6466d07ee1e24d6292fd6",
    ),
    (
        ProofKind.UPDATE,
        2 * _KIB,
        "311f92a3e75036ced01b1c0025f1fa0c",
        "eadad9784969890d30f2749708c79771",
    ),
    (
        ProofKind.UPDATE,
        8 * _MIB,
        "5aedd2cf3e5c0a15623d56a1b43110ad",
        "abd80269054d391a734febdac0d2e687",
    ),
    (
        ProofKind.UPDATE,
        512 * _MIB,
        "c3ad7bb549470b82ad52ed070aebb4f4",
        "994c5b7d450ca9da348c910689f2dc7f",
    ),
    (
        ProofKind.UPDATE,
        32 * _GIB,
        "1b3cfd761a961543f9eb273e435a06a2",
        "3a6941983754737fde880d29c7094905",
    ),
    (
        ProofKind.UPDATE,
        64 * _GIB,
        "1a392e7b759fb18e036c7559b5ece816",
        "80e366df2f1011953c2d01c7b7c9ee8e",
    ),
)

_SETS = {(kind, size): (params, vk) for kind, size, params, vk in _ROWS}
_NAMES = {
    digest: ParameterSet(kind, sector_shape(size)).name
    for kind, size, *digests in _ROWS
    for digest in digests
}

NETWORK_SETS = tuple(ParameterSet(kind, sector_shape(size)) for kind, size in _SETS)
"""All parameter sets of the network."""


def network_digests(parameters: ParameterSet) -> tuple[str, ...]:
    """Return the digests of the .params and the .vk file; none if the network has no such set."""
    return _SETS.get((parameters.kind, parameters.sector.size), ())


def network_set(digest: str) -> str | None:
    """Return the name of the set that has a file of this digest, or None."""
    return _NAMES.get(digest)
