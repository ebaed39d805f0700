"""Ways of holding field elements while a kernel computes.

A strategy has a file of its own, with its row as ``STRATEGY`` at the end: `mersenne61`,
`one_word`, `ifma52`, `limbs32`, `limbs64`, `lazy_limbs`. Beside them stands what they are made of:
`word` for one word, `saturated`, `carry_chains` and `reduction` for limbs of whole words,
`spare_limbs` for those with bits to spare, `limb_choice` for small ones, `inversion` for all.
"""
