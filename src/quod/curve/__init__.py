"""Curves: parameters, groups, point arithmetic, encodings, pairings.

Arrays of points are in `quod.curve.weierstrass.operations` and `quod.curve.edwards.operations`,
byte encodings in `quod.curve.encoding.points`. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.curve.affine_law import AffineGroup as AffineGroup
    from quod.curve.array import Point as Point
    from quod.curve.array import from_points as from_points
    from quod.curve.array import to_points as to_points
    from quod.curve.edwards.affine import EdwardsGroup as EdwardsGroup
    from quod.curve.edwards.affine import edwards_group as edwards_group
    from quod.curve.edwards.curve import EdwardsCurve as EdwardsCurve
    from quod.curve.edwards.curve import MontgomeryForm as MontgomeryForm
    from quod.curve.edwards.encoding import decode_edwards as decode_edwards
    from quod.curve.edwards.encoding import encode_edwards as encode_edwards
    from quod.curve.group import Group as Group
    from quod.curve.groups import GROUPS as GROUPS
    from quod.curve.named import CURVES as CURVES
    from quod.curve.named import EDWARDS as EDWARDS
    from quod.curve.named import WEIERSTRASS as WEIERSTRASS
    from quod.curve.pairing.products import pairing_product as pairing_product
    from quod.curve.pairing.products import pairing_product_is_one as pairing_product_is_one
    from quod.curve.parameters import PairingCurve as PairingCurve
    from quod.curve.weierstrass.affine import affine_group as affine_group
    from quod.curve.weierstrass.affine import g1_group as g1_group
    from quod.curve.weierstrass.affine import g2_group as g2_group
    from quod.curve.weierstrass.curve import Curve as Curve
else:
    __getattr__, __dir__ = lazy_names(__name__)
