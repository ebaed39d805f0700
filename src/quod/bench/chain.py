"""Benchmark circuits of any size: chains of products, and their witnesses, as arrays.

Chain j starts with x_0, the public input shared by all chains, and its own x_1, and continues with
x_(i+2) = x_(i+1) * (x_(i+1) + x_i): one constraint for each product. Witness values are
pseudo-random and every variable occurs in B, so that no part of a proof is unusually cheap.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from quod.curve.named import CURVES
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError
from quod.field.array import Words, from_integers, random_elements
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.formats import SparseMatrix, Witness
from quod.formats.curves import curve_named
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types

# The maximum number of chains; the witness kernel computes one chain per instance.
_CHAINS = 4096

# The wires before the chains: the constant and the public input.
_FIRST = 2


@kernel
def chain_products(
    k: Builder,
    chains: U32,
    length: U32,
    last_length: U32,
    starts: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Compute the values x_1 to x_(length + 1) of every chain, one chain per instance.

    starts: the public input x_0, then x_1 of each chain, in Montgomery form.
    out: the values of the chains in order, as canonical integers.
    The last chain has `last_length` products.
    """
    f = prime_field(k, modulus)
    chain = k.global_id()
    with k.if_(chain < chains):
        products = k.select(chain == chains - 1, last_length, length)
        from_montgomery = f.constant(pow(modulus.montgomery_radix, -1, modulus.value))
        first = chain.cast(types.u64) * (length + 1).cast(types.u64)
        # `bounded` gives an element the standard bounds that loops and branches require.
        start = (f.bounded(f.load(starts, 0)), f.bounded(f.load(starts, chain + 1)))
        f.store(out, first, start[1] * from_montgomery)
        with k.range(0, products, carry=start) as loop:
            previous, value = loop.carried
            product = f.bounded(value * (value + previous))
            f.store(out, first + 1 + loop.index.cast(types.u64), product * from_montgomery)
            loop.next((value, product))


@frozen
class ChainCircuit:
    """A circuit of `constraints` products over a curve's scalar field, with one public input.

    `quod.groth16.setup.make_key` takes such a circuit.
    """

    curve: str
    constraints: int

    def __post_init__(self) -> None:
        curve_named(self.curve)
        if not 1 <= self.constraints < 1 << 31:
            raise InputError(f"a chain has 1 to 2**31 - 1 constraints, not {self.constraints}")

    @property
    def path(self) -> str:
        """The name of the circuit in messages."""
        return f"a chain of {self.constraints} products over {self.curve}"

    @property
    def public(self) -> int:
        return 1

    @property
    def wires(self) -> int:
        return _FIRST + self.constraints + self._chains

    @cached_property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """The matrices A, B and C; all their values are 1."""
        count = self.constraints
        row = np.arange(count, dtype=np.uint32)
        chain, position = np.divmod(row, np.uint32(self._length))
        wire = row + chain + np.uint32(_FIRST)
        previous = np.where(position == 0, np.uint32(1), wire - np.uint32(1))
        return (
            self._matrix(wire[:, None]),
            self._matrix(np.stack([previous, wire], axis=1)),
            self._matrix(wire[:, None] + np.uint32(1)),
        )

    def witness(self, *, seed: int = 1, device: DeviceChoice = "cpu") -> Witness:
        """Compute a witness on `device`, with pseudo-random starting values from `seed`."""
        resolved_device, fr = resolve_device(device), CURVES[self.curve].fr
        starts = random_elements(fr, self._chains + 1, seed)
        values = unwritten(self.wires, fr.words)
        values[0] = 0
        values[0, 0] = 1
        values[1] = _integers(fr, starts[:1])
        resolved_device.launch(
            resolved_device.compile(chain_products, modulus=fr),
            -(-self._chains // resolved_device.lanes),
            self._chains,
            self._length,
            self.constraints - (self._chains - 1) * self._length,
            starts,
            values[_FIRST:],
        )
        check_written(resolved_device, "the witness of a chain", values)
        return Witness(f"the witness of {self.path}", self.curve, values, values.nbytes)

    @property
    def _length(self) -> int:
        """The number of products of every chain but the last."""
        return -(-self.constraints // _CHAINS)

    @property
    def _chains(self) -> int:
        return -(-self.constraints // self._length)

    def _matrix(self, columns: Words) -> SparseMatrix:
        """Return a matrix whose row i has ones in the columns `columns[i]`."""
        rows, width = columns.shape
        words = CURVES[self.curve].fr.words
        one_words = np.zeros(words, np.uint32)
        one_words[0] = 1
        return SparseMatrix(
            np.arange(0, rows * width + 1, width, dtype=np.int64),
            np.ascontiguousarray(columns).reshape(-1),
            np.broadcast_to(one_words, (rows * width, words)),
        )


def _integers(modulus: Modulus, elements: Words) -> Words:
    """Convert elements from Montgomery form to integers; returns their words."""
    radix_inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    values = [int.from_bytes(row.tobytes(), "little") * radix_inverse for row in elements]
    # `from_integers` multiplies by the radix, so divide by the radix once more.
    return from_integers(modulus, [value * radix_inverse for value in values])
