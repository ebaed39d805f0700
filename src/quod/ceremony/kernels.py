"""Registration of the kernels of ceremonies by name, for `quod kernel list`."""

from __future__ import annotations

from quod.ceremony.multiples import scalar_multiples, scalar_powers
from quod.ceremony.point_bytes import curve_ordinates
from quod.ceremony.secret import inverted_scalar
from quod.curve.groups import GROUPS
from quod.field.moduli import BN254_FR
from quod.hash.blake2b import compress_blocks
from quod.kernel.registry import register

register("ceremony.compress_blocks", compress_blocks)
for _definition in (scalar_powers, inverted_scalar):
    register(f"ceremony.{_definition.name}[{BN254_FR.name}]", _definition, modulus=BN254_FR)
register("ceremony.curve_ordinates[bn254.g1]", curve_ordinates, group=GROUPS["bn254.g1"])
register("ceremony.scalar_multiples[bn254.g1]", scalar_multiples, group=GROUPS["bn254.g1"])
