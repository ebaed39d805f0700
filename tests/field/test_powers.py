"""Powers of long exponents: bits in a loop, as many multiplications as there are ones."""

from __future__ import annotations

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.field.any_field import field_arithmetic
from quod.field.moduli import BLS12_381_FQ, GOLDILOCKS
from quod.field.named_extensions import EXTENSIONS
from quod.field.spec import FieldSpec
from quod.kernel import U32, U64, Builder, Pointer, kernel
from tests.field.models import Model, packed, spec_name, unpacked
from tests.support.thorough import one_and_others

FIELDS = [
    GOLDILOCKS, BLS12_381_FQ, EXTENSIONS["goldilocks.2"], CURVES["bn254"].tower.fq2,
]  # fmt: skip


@kernel
def powers(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec,
    exponents: tuple[int, ...],
) -> None:  # fmt: skip
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        for place, exponent in enumerate(exponents):
            f.store(out, i * len(exponents) + place, f.power(f.load(a, i), exponent))


@pytest.mark.parametrize("spec", one_and_others(FIELDS, FIELDS[:2]), ids=spec_name)
def test_long_exponents(device: AnyDevice, spec: FieldSpec) -> None:
    """Words of ones and of zeros, as many ones as still are products one by one, and one more."""
    p = spec.modulus.value
    exponents = (
        (1 << 32) - 1, (1 << 33) - 1, ((1 << 40) - 1) << 40 | 1, (1 << 127) - (1 << 64),
        max(p - 2, (1 << 64) - 3), (1 << 500) // 3,
    )  # fmt: skip
    model = Model(spec)
    rows = [(0,), (1,), (p - 1,), (5,), tuple(range(2, 2 + spec.degree))]
    rows = [(*row, *[0] * (spec.degree - len(row))) for row in rows]
    a = packed(spec, rows)
    out = np.zeros((len(rows) * len(exponents), a.shape[1]), np.uint64)
    compiled = device.compile(powers, spec=spec, exponents=exponents)
    device.launch(compiled, -(-len(rows) // device.lanes), len(rows), a, out)
    wanted = [model.power(row, exponent) for row in rows for exponent in exponents]
    assert unpacked(spec, out) == wanted
