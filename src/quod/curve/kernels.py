"""The kernels of curves by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.curve.edwards import operations as edwards
from quod.curve.edwards.decompression import edwards_decompress
from quod.curve.edwards.weierstrass_model import edwards_to_model, model_of
from quod.curve.encoding.memory_compression import curve_decompress
from quod.curve.groups import GROUPS
from quod.curve.multiples.subgroup_multiples import subgroup_multiples
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.named.jubjub import JUBJUB
from quod.curve.pairing.products import miller_loops, pairing_final
from quod.curve.weierstrass.membership import curve_check, find_finite
from quod.curve.weierstrass.point_kernels import (
    curve_add,
    curve_double,
    curve_multiply,
    curve_negate,
    curve_normalise,
    curve_sum,
)
from quod.kernel.registry import register

# Curves without a pairing register only these two kernels: the others differ in the field alone.
for _group in (*GROUPS.values(), *WEIERSTRASS.values()):
    register(f"curve.add[{_group.name}]", curve_add, group=_group)
    register(f"curve.multiply[{_group.name}]", curve_multiply, group=_group, scalar_words=4)
for _group in GROUPS.values():
    for _short, _definition, _static in (
        ("double", curve_double, {}),
        ("negate", curve_negate, {}),
        ("sum", curve_sum, {"extended": False}),
        ("normalise", curve_normalise, {}),
        ("check", curve_check, {"subgroup": True}),
        ("find_finite", find_finite, {}),
        ("subgroup_multiples", subgroup_multiples, {}),
    ):
        register(f"curve.{_short}[{_group.name}]", _definition, group=_group, **_static)
for _edwards in EDWARDS.values():
    register(f"curve.add[{_edwards.name}]", edwards.edwards_add, curve=_edwards)
    register(
        f"curve.multiply[{_edwards.name}]", edwards.edwards_multiply, curve=_edwards, scalar_words=4
    )
register("curve.double[edwards_bls12]", edwards.edwards_double, curve=EDWARDS_BLS12)
register("curve.negate[edwards_bls12]", edwards.edwards_negate, curve=EDWARDS_BLS12)
register("curve.check[edwards_bls12]", edwards.edwards_check, curve=EDWARDS_BLS12)
register("curve.decompress[jubjub]", edwards_decompress, curve=JUBJUB)
for _group in (GROUPS["bls12_381.g1"], GROUPS["bls12_381.g2"]):
    register(f"curve.decompress[{_group.name}]", curve_decompress, group=_group)
register("curve.to_model[edwards_bls12]", edwards_to_model, model=model_of(EDWARDS_BLS12))
for _curve in CURVES:
    register(f"curve.miller_loops[{_curve}]", miller_loops, curve=_curve)
    register(f"curve.pairing_final[{_curve}]", pairing_final, curve=_curve)
