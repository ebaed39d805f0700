"""Batch conversion of extended sums to affine points, with one inversion per instance."""

from __future__ import annotations

from quod.curve.group import Group
from quod.curve.sums.bytecode import keeps_elements, step
from quod.curve.sums.packed import PackedWeierstrassSums
from quod.curve.weierstrass.point_kernels import curve_normalise
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value

_MULTIPLY = (step("d", "d", "zzz"),)

# Slot a has the product of the ZZZ before an item, slot d the inverse of the product up to and
# including the item. The steps leave 1/ZZZ of the item in a, and in d the inverse for the next.
_DIVIDE = (step("a", "a", "d"), *_MULTIPLY)


@kernel
def normalise_sums(
    k: Builder,
    instances: U32,
    count: U32,
    points: Pointer[U64],
    prefixes: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Compute `curve_normalise`, by bytecode except for the inversion where kernels must be short.

    Arrays and results are those of `curve_normalise`.
    """
    if not keeps_elements(k, group):
        curve_normalise.function(k, instances, count, points, prefixes, out, group=group)
        return
    law, i = PackedWeierstrassSums(k, group), k.global_id()
    machine, field = law.machine, law.field
    one = machine.pack(field.one())

    def load(index: Value) -> Value:
        """Load a point into its slots; return whether it is infinity, for which ZZZ is set to 1."""
        is_infinite = law.is_infinite(law.load(points, index))
        zzz = machine.get("zzz")
        machine.put("zzz", [k.select(is_infinite, *pair) for pair in zip(one, zzz, strict=True)])
        return is_infinite

    with k.if_(i < instances):
        terms = (count - i + (instances - 1)) // instances
        machine.put("d", one)
        with k.range(0, terms) as forward:
            index = i + forward.index * instances
            law.store_slots(prefixes, index, ("d",))
            load(index)
            machine.run(_MULTIPLY)
        machine.put("d", machine.pack(field.inverse(machine.unpack(machine.get("d")))))
        with k.range(0, terms) as backward:
            index = i + (terms - 1 - backward.index) * instances
            is_infinite = load(index)
            law.load_slots(prefixes, index, ("a",))
            word_offset = index.cast(types.u64) * group.point_words
            k.store(out, word_offset, *law.affine_words(is_infinite, _DIVIDE))
