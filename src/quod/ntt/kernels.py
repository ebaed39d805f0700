"""Register the kernels of transforms by the names that `quod kernel list` shows."""

from __future__ import annotations

from typing import get_args

from quod.curve.groups import GROUPS
from quod.field.moduli import BN254_FR
from quod.field.roots import root_of_unity
from quod.kernel.registry import register
from quod.ntt.gpu.factors import fill_progressions
from quod.ntt.gpu.levels import transform_level
from quod.ntt.gpu.schedule import DEFAULT_TUNING
from quod.ntt.gpu.transform import PassParameters, transform_tiles
from quod.ntt.host.passes import PassShape, transform_pass
from quod.ntt.host.reorder import reverse_bits, scale_by_powers
from quod.ntt.points import factor_digits, point_butterflies, point_doubles, point_multiples
from quod.ntt.quotient import product_less, quotient_difference, quotient_scalars
from quod.ntt.steps import Direction
from quod.ntt.twiddles import fill_column_table, to_limbs

_FIELD = BN254_FR
_SHAPES = {
    direction: PassShape(direction, "adjacent", trivial=False, scaled=False)
    for direction in get_args(Direction)
}

for _direction, _shape in _SHAPES.items():
    register(
        f"ntt_{_direction}_pass.{_FIELD.name}", transform_pass, modulus=_FIELD, shape=_shape
    )  # fmt: skip
register("ntt_reverse_bits", reverse_bits, words=_FIELD.words)
for _definition in (scale_by_powers, fill_column_table, to_limbs, quotient_scalars):
    register(f"ntt_{_definition.name}.{_FIELD.name}", _definition, modulus=_FIELD)

# Eight levels, like each of the three passes of 2**24 points, for workgroups of 128.
for _direction in get_args(Direction):
    register(
        f"ntt_{_direction}_tiles.{_FIELD.name}",
        transform_tiles,
        modulus=_FIELD,
        shape=PassParameters(
            _direction,
            DEFAULT_TUNING.tile(8),
            "upper",
            root_of_unity(_FIELD, "snarkjs", DEFAULT_TUNING.log_elements),
            "full",
            resident=DEFAULT_TUNING.resident,
        ),
    )  # fmt: skip
for _definition in (fill_progressions, product_less, quotient_difference, transform_level):
    register(f"ntt_{_definition.name}.{_FIELD.name}", _definition, modulus=_FIELD)

_GROUP = GROUPS["bn254.g1"]
register(f"ntt_point_butterflies.{_GROUP.name}", point_butterflies, group=_GROUP, multiplied=True)
for _definition in (factor_digits, point_multiples, point_doubles):
    register(f"ntt_{_definition.name}.{_GROUP.name}", _definition, group=_GROUP)
