"""The kernels of benchmark circuits by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.bench.chain import chain_products
from quod.field.moduli import BN254_FR
from quod.kernel.registry import register

register(f"groth16.chain_products[{BN254_FR.name}]", chain_products, modulus=BN254_FR)
