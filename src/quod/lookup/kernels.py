"""The kernels of lookups by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.named_extensions import EXTENSIONS
from quod.kernel.registry import register
from quod.lookup.fraction_kernels import (
    LayerForm,
    add_fractions,
    add_parts,
    add_shifted,
    embedded_numerators,
    next_layer,
    row_denominators,
)

_FIELD = EXTENSIONS["m31.4"]

for _definition in (row_denominators, embedded_numerators, add_shifted, add_parts):
    register(f"lookup.{_definition.name}[{_FIELD.name}]", _definition, field=_FIELD)
register(
    f"lookup.add_fractions[{_FIELD.name}]", add_fractions, field=_FIELD, has_numerators=True
)  # fmt: skip
register(
    f"lookup.next_layer[{_FIELD.name}]", next_layer,
    form=LayerForm(
        _FIELD, counts=(4,), continuing_trees=(0,), was_shifted=False, is_shifted=False
    ),
)  # fmt: skip
