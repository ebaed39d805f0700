"""The hash personalisations of Zcash's Sapling and of MASP, Namada's shielded pool.

Sapling: Zcash protocol specification, 5.4. MASP: `masp_primitives/src/constants.rs`.
"""

from __future__ import annotations

from quod.frozen import frozen


@frozen
class Protocol:
    """A shielded protocol: personalisations of 8 bytes, except `expansion`, which has 16.

    name: "Sapling" or "MASP".
    spend_authorization: of the generator G of ak.
    proof_generation: of the generator H of nk.
    nullifier_position: of the generator J of a note's position.
    pedersen: of the Pedersen hash's generators, and of the one for the randomness of commitments.
    value_randomness: of the generator R in value commitments.
    diversifier: of the hash from a diversifier to g_d.
    incoming_key: of the hash from ak and nk to ivk.
    nullifier: of the hash from nk and rho to a nullifier.
    expansion: of PRF^expand.
    has_assets: whether notes have an asset, with a value generator of its own.
    """

    name: str
    spend_authorization: bytes
    proof_generation: bytes
    nullifier_position: bytes
    pedersen: bytes
    value_randomness: bytes
    diversifier: bytes
    incoming_key: bytes
    nullifier: bytes
    expansion: bytes
    has_assets: bool

    def __repr__(self) -> str:
        return self.name


SAPLING = Protocol(
    "Sapling", b"Zcash_G_", b"Zcash_H_", b"Zcash_J_", b"Zcash_PH", b"Zcash_cv", b"Zcash_gd",
    b"Zcashivk", b"Zcash_nf", b"Zcash_ExpandSeed", has_assets=False,
)  # fmt: skip
MASP = Protocol(
    "MASP", b"MASP__G_", b"MASP__H_", b"MASP__J_", b"MASP__PH", b"MASP__r_", b"MASP__gd",
    b"MASP_ivk", b"MASP__nf", b"MASP__ExpandSeed", has_assets=True,
)  # fmt: skip
