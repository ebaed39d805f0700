"""The kernel of witness checks."""

from __future__ import annotations

from quod.field.moduli import BN254_FR, Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.registry import register


@kernel
def row_sums(
    k: Builder,
    rows: U32,
    row_ptr: Pointer[U32],
    column: Pointer[U32],
    value: Pointer[U64],
    vector: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Store the sum of value[e] * vector[column[e]] over row i to out[i].

    Row i has the entries row_ptr[i] to row_ptr[i + 1] - 1; each instance sums one row. Values and
    the vector are integers below the modulus; sums are in Montgomery form.
    """
    f = prime_field(k, modulus)
    row = k.global_id()
    with k.if_(row < rows):
        # `bounded` gives an element the standard bounds that loops and branches require.
        zero = f.bounded(f.zero())
        with k.range(row_ptr[row], row_ptr[row + 1], carry=zero) as loop:
            product = f.load(value, loop.index) * f.load(vector, column[loop.index])
            loop.next(f.bounded(loop.carried + product))
        # Integers are read as if in Montgomery form, so each factor lacks the Montgomery radix.
        f.store(out, row, loop.results * f.constant(modulus.montgomery_radix**2))


register(f"witness.row_sums[{BN254_FR.name}]", row_sums, modulus=BN254_FR)
