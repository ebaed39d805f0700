"""The bytes of elements as limbs, against the limbs of traced kernels."""

from __future__ import annotations

from itertools import count

import pytest

from quod.field.moduli import MAX_BITS, MODULI, Modulus
from quod.field.primality import is_prime
from quod.field.strategies.limb_counts import limb_bytes
from quod.field.strategy import prime_field
from quod.kernel import Builder, Machine
from quod.kernel.machine import Capability

MACHINES = {
    "scalar": Machine("llvm", 1, frozenset({Capability.U64, Capability.CARRY})),
    "avx2": Machine("llvm", 4, frozenset({Capability.U64, Capability.WORD_PRODUCTS})),
    "ifma": Machine("llvm", 8, frozenset({Capability.U64, Capability.IFMA52})),
}


def prime_of(bits: int) -> Modulus:
    """The smallest prime of this many bits."""
    value = next(n for n in count((1 << (bits - 1)) + 1, 2) if is_prime(n))
    return Modulus(f"prime{bits}", value)


SIZES = (17, 31, 32, 33, 61, 64, 65, 96, 127, 128, 192, 253, 254, 255, 256, 320, 381, 384, 448, 521)
FIELDS = [*MODULI.values(), *map(prime_of, SIZES)]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("modulus", FIELDS, ids=lambda modulus: modulus.name)
def test_tables_have_room_for_the_limbs_of_a_kernel(machine: Machine, modulus: Modulus) -> None:
    assert modulus.bits <= MAX_BITS
    field = prime_field(Builder(machine), modulus)
    limbs = field.limb_count * field.limb_type.bytes
    assert limbs <= limb_bytes(machine, modulus)
    if modulus.name in MODULI:
        assert limbs == limb_bytes(machine, modulus)
