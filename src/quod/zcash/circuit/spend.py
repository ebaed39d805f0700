"""The circuits of Sapling's and MASP's Spend, with the constraints of their Rust implementations.

The statement: the prover knows a note in the tree and the keys that may spend it, such that

- ak and g_d are points of the curve, and not of small order;
- rk = ak + alpha * G is the public key that verifies the signature of this Spend;
- nk = nsk * H, ivk is the first 251 bits of BLAKE2s(ak, nk), and pk_d = ivk * g_d;
- cv = value * V + rcv * R commits to the value;
- cm is the commitment to (g_d, pk_d, value) with randomness rcm; in MASP also to the asset, whose
  generator takes the place of V, times the cofactor 8;
- the path leads from the u-coordinate of cm at the position to the anchor, unless the value is 0;
- the nullifier is BLAKE2s(nk, cm + position * J).

Public are rk.u, rk.v, cv.u, cv.v, anchor, and the nullifier as two numbers, of its first 254 bits
and its last 2. The circuit leaves to the verifier: rk and cv are not of small order, and the
encodings of cv, rk and the anchor are canonical. ak and g_d need not be in the subgroup.

Zcash protocol specification, 4.18.2; `impl Circuit for Spend` of `sapling-crypto/src/circuit.rs`
and of `masp_proofs/src/circuit/sapling.rs`.
"""

from __future__ import annotations

from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash
from quod.r1cs.gadgets.bellman.packing import publish_packed
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.steps import (
    commit_asset_value,
    commit_note,
    commit_value,
    private_point,
    random_multiple,
    within_namespace,
)
from quod.zcash.circuit.tree import publish_anchor, root_of_path
from quod.zcash.circuit.windows import fixed_multiple
from quod.zcash.generators import (
    nullifier_generator,
    proof_generator,
    spend_authorizing_generator,
)
from quod.zcash.protocol import MASP, SAPLING, Protocol

_IVK_BITS = 251


def sapling_spend(system: ConstraintSystem) -> None:
    """Add the circuit of Sapling's Spend, of 98,777 constraints.

    The inputs are `ak`, `g_d` (u and v each), `alpha`, `nsk`, `rcv`, `rcm`, `value`, `rt` (the
    anchor), and for each level of the tree ``path[level]/bit`` and ``path[level]/sibling``.
    """
    _spend(system, SAPLING)


def masp_spend(system: ConstraintSystem) -> None:
    """Add the circuit of MASP's Spend, of 100,637 constraints.

    The inputs are those of `sapling_spend` and `asset_generator` (u and v).
    """
    _spend(system, MASP)


def _spend(system: ConstraintSystem, protocol: Protocol) -> None:
    ak = private_point(system, "ak", "ak")
    randomisation = random_multiple(
        system, "alpha", "computation of randomization for the signing key",
        spend_authorizing_generator(protocol),
    )  # fmt: skip
    rk = within_namespace(system, "computation of rk", ak.add, randomisation)
    within_namespace(system, "rk", rk.output, "rk")
    nk = random_multiple(system, "nsk", "computation of nk", proof_generator(protocol))
    ak_bits = within_namespace(system, "representation of ak", ak.encoded)
    nk_bits = within_namespace(system, "representation of nk", nk.encoded)
    key_hash = within_namespace(
        system, "computation of ivk", blake2s_hash, system, [*ak_bits, *nk_bits],
        protocol.incoming_key,
    )  # fmt: skip
    base = private_point(system, "witness g_d", "g_d")
    pk_d = within_namespace(system, "compute pk_d", base.times, key_hash[:_IVK_BITS])
    asset, value = commit_asset_value(system) if protocol.has_assets else ([], commit_value(system))
    note = [
        *asset,
        *value,
        *within_namespace(system, "representation of g_d", base.encoded),
        *within_namespace(system, "representation of pk_d", pk_d.encoded),
    ]
    cm = commit_note(system, note, protocol)
    root, position = root_of_path(system, cm.u, protocol)
    publish_anchor(system, root, value)
    position_term = within_namespace(
        system, "g^position", fixed_multiple, system, nullifier_generator(protocol), position
    )
    rho = within_namespace(system, "faerie gold prevention", cm.add, position_term)
    rho_bits = within_namespace(system, "representation of rho", rho.encoded)
    nullifier = within_namespace(
        system, "nf computation", blake2s_hash, system, [*nk_bits, *rho_bits], protocol.nullifier
    )
    within_namespace(system, "pack nullifier", publish_packed, system, "nullifier", nullifier)
