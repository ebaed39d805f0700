"""The hash personalisations of Zcash's Sapling and of MASP, Namada's shielded pool.

Sapling: Zcash protocol specification, 5.4. MASP: `masp_primitives/src/constants.rs`.
"""

from __future__ import annotations

from quod.frozen import frozen


@frozen
class Protocol:
    """A shielded protocol: personalisations of 8 bytes, and of 16 from `expansion` on.

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
    signature: of the hash to scalars in RedJubjub.
    master_key, fingerprint, internal_key: of ZIP 32's hashes of a seed, of a full viewing key,
        and of the parts of a full viewing key that derive the key for change.
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
    signature: bytes
    master_key: bytes
    fingerprint: bytes
    internal_key: bytes
    has_assets: bool

    def __repr__(self) -> str:
        return self.name


SAPLING = Protocol(
    "Sapling", b"Zcash_G_", b"Zcash_H_", b"Zcash_J_", b"Zcash_PH", b"Zcash_cv", b"Zcash_gd",
    b"Zcashivk", b"Zcash_nf", b"Zcash_ExpandSeed", b"Zcash_RedJubjubH", b"ZcashIP32Sapling",
    b"ZcashSaplingFVFP", b"Zcash_SaplingInt", has_assets=False,
)  # fmt: skip
MASP = Protocol(
    "MASP", b"MASP__G_", b"MASP__H_", b"MASP__J_", b"MASP__PH", b"MASP__r_", b"MASP__gd",
    b"MASP_ivk", b"MASP__nf", b"MASP__ExpandSeed", b"MASP__RedJubjubH", b"MASP_IP32Sapling",
    b"MASP_SaplingFVFP", b"MASP__SaplingInt", has_assets=True,
)  # fmt: skip
