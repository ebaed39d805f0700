"""Additions in private memory, for every pair of points that formulas treat by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import WgslTarget
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.entries import SIGN_BIT
from quod.curve.sums.forms import Form
from quod.curve.sums.packed import PackedSums
from quod.kernel import U32, U64, Builder, Pointer, kernel, u32
from quod.kernel.interpreter.interpreter import interpret
from tests.curve.test_edwards_sums import affine, edwards_bases, edwards_sums, mapped
from tests.msm.inputs import points, reference
from tests.msm.sums import bases_of, points_of, sums_of
from tests.support.thorough import one_and_others

MACHINES = {
    "13": WgslTarget(limbs="13").machine(64),
    "29/64:rolled": WgslTarget(u64=True, limbs="29/64:rolled").machine(64),
}


@kernel
def operations(
    k: Builder, count: U32, p: Pointer[U64], q: Pointer[U64], bases: Pointer[U64],
    added: Pointer[U64], doubled: Pointer[U64], moved: Pointer[U64], based: Pointer[U64],
    again: Pointer[U64], failed: Pointer[U32], *, group: Group, form: Form,
) -> None:  # fmt: skip
    """Sums and doubles of p[i] and q[i]; bases i and -(i + 1) added the fast way, and to p[i]."""
    law: Any = sum_arithmetic(k, group, form)
    assert isinstance(law, PackedSums)
    room = law.room_for_lanes(k.workgroup_size)
    i = k.global_id()
    point, other = law.load(p, i), law.load(q, i)
    law.store(added, i, law.add(point, other))
    law.store(doubled, i, law.double(point))
    lane = k.local_id()
    with k.if_(lane < k.workgroup_size // 2):
        law.keep(room, lane, point)
        law.store(moved, i, law.kept(room, lane))
    following = k.select(i + 1 < count, i + 1, 0) | SIGN_BIT
    first, second = (law.base(law.load_base(bases, entry), entry) for entry in (i, following))
    total = law.add_base(law.begin(first), second)
    law.store_coordinates(based, i, total)
    has_failed = law.failed(total)
    if has_failed is not None:
        failed[i] = k.select(has_failed, k.constant(1, u32), 0)
    law.store(again, i, law.add_base_completely(point, second))


@pytest.mark.parametrize(
    ("name", "limbs"),
    one_and_others(
        [("bn254.g1", "13"), ("bn254.g1", "29/64:rolled"), ("bls12_381.g2", "29/64:rolled"),
         ("edwards", "13")],
        always=[("bn254.g1", "29/64:rolled"), ("edwards", "13")],
    ),
)  # fmt: skip
def test_every_pair(name: str, limbs: str) -> None:
    group = GROUPS["bls12_377.g1" if name == "edwards" else name]
    form: Form = "edwards" if name == "edwards" else "weierstrass"
    law = reference(group)
    p, q = points(group, 2)
    some = [None, p, law.neg(p), law.add(p, p), q, law.add(p, q), law.neg(law.add(p, q)), p]
    left = [point for point in some for _ in some]
    right = some * len(some)
    count = len(left)
    # No base is infinity; neighbours are the same, opposite and others.
    bases = [p, p, law.neg(p), q, law.neg(q), law.neg(q), law.add(p, q), p] * (count // 8)
    following = [law.neg(bases[(i + 1) % count]) for i in range(count)]
    plain_bases = edwards_bases(bases) if form == "edwards" else bases_of(group, bases)
    make: Any = edwards_sums if form == "edwards" else lambda values: sums_of(group, values)
    arrays = [make(left), make(right), plain_bases]
    size = len(arrays[0])
    results = [np.zeros(size, np.uint64) for _ in range(5)]
    failed = np.zeros(count, np.uint32)
    traced = operations.trace(MACHINES[limbs], group=group, form=form)
    interpret(traced, count // 64, [count, *arrays, *results, failed])
    points_in: Any = affine if form == "edwards" else lambda values: points_of(group, values)
    shown: Any = (lambda values: [*map(mapped, values)]) if form == "edwards" else list
    added, doubled, moved, based, again = results
    assert points_in(added) == shown([law.add(a, b) for a, b in zip(left, right, strict=True)])
    assert points_in(doubled) == shown([law.add(a, a) for a in left])
    half = size // 2
    assert points_in(moved[:half]) == shown(left[:32])
    assert points_in(again) == shown([law.add(a, b) for a, b in zip(left, following, strict=True)])
    sums = [law.add(a, b) for a, b in zip(bases, following, strict=True)]
    if form == "edwards":
        assert points_in(based) == shown(sums)
        return
    refused = [a in (b, law.neg(b)) for a, b in zip(bases, following, strict=True)]
    assert failed.astype(bool).tolist() == refused
    kept = [i for i in range(count) if not refused[i]]
    assert [points_in(based)[i] for i in kept] == [sums[i] for i in kept]


@kernel
def both_forms(k: Builder, p: Pointer[U64], out: Pointer[U64], *, group: Group) -> None:
    """Sums of both forms of a group, whose functions have the same names and take words alike."""
    for at, form in enumerate(("weierstrass", "edwards")):
        law: Any = sum_arithmetic(k, group, form)
        law.store(out, at, law.add(law.load(p, 2 * at), law.load(p, 2 * at + 1)))


def test_two_point_representations_in_one_kernel() -> None:
    group = GROUPS["bls12_377.g1"]
    law, (p, q) = reference(group), points(group, 2)
    machine = MACHINES["29/64:rolled"]
    first_sums = sums_of(group, [p, q])
    other = edwards_sums([p, q])
    assert first_sums.shape == other.shape
    out = np.zeros_like(first_sums)
    interpret(both_forms.trace(machine, group=group), 1, [np.concatenate([first_sums, other]), out])
    half, total = out.size // 2, law.add(p, q)
    assert points_of(group, out[:half]) == [total]
    assert affine(out[half:]) == [mapped(total)]
