"""The circuit of MASP's Convert, with the constraints of `masp_proofs/src/circuit/convert.rs`.

The statement: the prover knows an allowed conversion in the tree such that

- the conversion's generator is a point of the curve, and not of small order;
- cv = value * 8 * generator + rcv * R commits to the value and the conversion;
- the path leads from the Pedersen hash of the generator's encoding to the anchor, unless the value
  is 0.

Public are cv.u, cv.v and the anchor. The generator is the sum of the generators of assets, each
times its weight in the conversion.
"""

from __future__ import annotations

from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.steps import commit_asset_value, hash_contents
from quod.zcash.circuit.tree import publish_anchor, root_of_path
from quod.zcash.protocol import MASP


def masp_convert(system: ConstraintSystem) -> None:
    """Add the circuit, of 47,358 constraints.

    The inputs are `asset_generator` (u and v), `value`, `rcv`, `rt` (the anchor), and for each
    level of the tree ``path[level]/bit`` and ``path[level]/sibling``.
    """
    encoding, value = commit_asset_value(system)
    leaf = hash_contents(system, encoding, MASP).u
    root, _ = root_of_path(system, leaf, MASP)
    publish_anchor(system, root, value)
