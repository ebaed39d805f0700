"""Kernels of trees over Poseidon: one hash per instance."""

from __future__ import annotations

from quod.field.moduli import BLS12_381_FR
from quod.hash.neptune import NeptuneHash
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.registry import register

_RADIX = BLS12_381_FR.montgomery_radix


@kernel
def hash_groups(
    k: Builder, count: U32, group_stride: U32, member_stride: U32, nodes: Pointer[U64],
    constants: Pointer[U64], hashes: Pointer[U64], *, arity: int,
) -> None:  # fmt: skip
    """Hash groups of `arity` nodes: hashes[g] is the Poseidon hash of group g.

    count: groups.
    group_stride, member_stride: member i of group g is nodes[g * group_stride + i * member_stride].
    nodes, hashes: canonical integers.
    constants: `quod.hash.neptune.kernel_constants` in stored form.
    """
    poseidon = NeptuneHash(k, arity, constants)
    f, group = poseidon.field, k.global_id()
    with k.if_(group < count):
        first = group * group_stride
        members = [f.load(nodes, first + member_stride * i) for i in range(arity)]
        hash = poseidon([f.bounded(a * f.constant(_RADIX)) for a in members])
        f.store(hashes, group, hash * f.constant(pow(_RADIX, -1, BLS12_381_FR.value)))


for _arity in (2, 8, 11):
    register(f"filecoin.hash_groups[{_arity}]", hash_groups, arity=_arity)
