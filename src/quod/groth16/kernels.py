"""Registration of the Groth16 kernels by name, each for one example field."""

from __future__ import annotations

from quod.field.moduli import BN254_FR
from quod.groth16.gpu.matrix import (
    add_pieces,
    add_pieces_of_each,
    lay_out_rows,
    multiply_pieces,
    multiply_pieces_by_each,
)
from quod.groth16.host.sparse_matrix import sparse_rows
from quod.groth16.lagrange import lagrange_values, scale_elements, weighted_sums
from quod.kernel.registry import register

_FIELD = BN254_FR.name

register(f"groth16.sparse_rows[{_FIELD}]", sparse_rows, modulus=BN254_FR, index=2)
register(f"groth16.lagrange_values[{_FIELD}]", lagrange_values, modulus=BN254_FR)
register(f"groth16.scale_elements[{_FIELD}]", scale_elements, modulus=BN254_FR, factor=2)
register(f"groth16.weighted_sums[{_FIELD}]", weighted_sums, modulus=BN254_FR)
register("groth16.lay_out_rows", lay_out_rows, words=BN254_FR.words, index=2)
register(f"groth16.multiply_pieces[{_FIELD}]", multiply_pieces, modulus=BN254_FR)
register(f"groth16.add_pieces[{_FIELD}]", add_pieces, modulus=BN254_FR)
register(f"groth16.multiply_pieces_by_each[{_FIELD}]", multiply_pieces_by_each, modulus=BN254_FR)
register(f"groth16.add_pieces_of_each[{_FIELD}]", add_pieces_of_each, modulus=BN254_FR)
