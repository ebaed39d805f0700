"""Limb strategies: representations of field elements in registers.

Each strategy is a module that ends with its row ``STRATEGY``: `mersenne61`, `one_word`, `ifma52`,
`limbs29`, `limbs32`, `limbs64`, `lazy_limbs`. The other modules are shared: `word` for one word,
`saturated`, `carry_chains` and `reduction` for saturated limbs, `spare_limbs` for limbs with spare
bits, `vector_limbs` for those in 64-bit lanes, `limb_choice` for small limbs, `limb_counts` for
numbers of limbs, `inversion` for several.
"""
