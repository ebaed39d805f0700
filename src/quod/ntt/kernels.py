"""The kernels of transforms by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.field.moduli import BN254_FR
from quod.kernel.registry import register
from quod.ntt.passes import PassShape, transform_pass
from quod.ntt.reorder import quotient_scalars, reverse_bits, scale_by_powers
from quod.ntt.twiddles import fill_column_table, to_limbs

_FORWARD = PassShape("ascending", "adjacent", trivial=False, scaled=False)
_INVERSE = PassShape("descending", "adjacent", trivial=False, scaled=False)

register("ntt_ascending_pass", transform_pass, modulus=BN254_FR, shape=_FORWARD)
register("ntt_descending_pass", transform_pass, modulus=BN254_FR, shape=_INVERSE)
register("ntt_reverse_bits", reverse_bits, words=BN254_FR.words // 2)
register("ntt_scale_by_powers", scale_by_powers, modulus=BN254_FR)
register("ntt_fill_column_table", fill_column_table, modulus=BN254_FR)
register("ntt_to_limbs", to_limbs, modulus=BN254_FR)
register("groth16_quotient_scalars", quotient_scalars, modulus=BN254_FR)
