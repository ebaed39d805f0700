"""The kernels of benchmark circuits by name, as `quod kernel list` shows them."""

from __future__ import annotations

from quod.bench.chain import chain_products
from quod.bench.porep.circuit import PartitionCircuit
from quod.bench.porep.kernels import partition_columns, partition_rows, partition_wires
from quod.field.moduli import BN254_FR
from quod.kernel.registry import register

_PARTITION = PartitionCircuit.like_porep()

register(f"groth16.chain_products[{BN254_FR.name}]", chain_products, modulus=BN254_FR)
register("groth16.partition_wires", partition_wires, circuit=_PARTITION)
register("groth16.partition_rows", partition_rows, circuit=_PARTITION, is_a=True)
register("groth16.partition_columns", partition_columns, circuit=_PARTITION)
