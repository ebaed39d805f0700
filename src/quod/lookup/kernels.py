"""The kernels of lookups by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.kernel.registry import register
from quod.lookup.count_kernels import (
    CountForm,
    count_entries,
    count_integers,
    insert_entries,
)
from quod.lookup.fraction_kernels import (
    LayerForm,
    add_fractions,
    add_parts,
    embedded_numerators,
    entry_denominators,
    next_layer,
)
from quod.lookup.leaf_form import LeafForm, Term, sum_leaves

_FIELD = EXTENSIONS["m31.4"]

for _definition in (entry_denominators, embedded_numerators, add_parts):
    register(f"lookup.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
_FORM = LeafForm(_FIELD, (Term("u16", "one"),), alike=True, padded=False)
_RANGE_FORM = LeafForm(_FIELD.modulus, (Term("u16", "base"),), alike=True, padded=False)
_PAIR_FORM = (_RANGE_FORM, LeafForm(_FIELD.modulus, (Term("i16", "base"),), True, False))

register(f"lookup.sum_leaves[{_FIELD.name}]", sum_leaves, form=_FORM, depth=2)
register(
    f"lookup.count_integers[{_FIELD.modulus.name}]", count_integers, form=_RANGE_FORM,
    count=CountForm(1 << 10),
)  # fmt: skip
register(
    f"lookup.insert_entries[{_FIELD.modulus.name}]", insert_entries, modulus=_FIELD.modulus,
    width=2,
)  # fmt: skip
register(
    f"lookup.count_entries[{_FIELD.modulus.name}]", count_entries, forms=_PAIR_FORM,
    count=CountForm(0, 1 << 10),
)  # fmt: skip
register(
    f"lookup.add_fractions[{_FIELD.name}]", add_fractions, field=_FIELD, has_numerators=True
)  # fmt: skip
register(
    f"lookup.next_layer[{_FIELD.name}]", next_layer,
    form=LayerForm(
        _FIELD, counts=(4,), continuing_trees=(0,), was_shifted=False, is_shifted=False
    ),
)  # fmt: skip
