"""Kernels over arrays of field elements, one element per instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.field.any_field import field_arithmetic
from quod.field.moduli import MODULI
from quod.field.spec import FieldSpec
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.registry import register

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


@kernel
def field_add(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = a[i] + b[i] for n elements."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.load(a, i, linear=True) + f.load(b, i, linear=True))


@kernel
def field_subtract(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = a[i] - b[i] for n elements."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.load(a, i, linear=True) - f.load(b, i, linear=True))


@kernel
def field_multiply(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = a[i] * b[i] for n elements."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.load(a, i) * f.load(b, i))


@kernel
def field_square(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = a[i]**2 for n elements."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.square(f.load(a, i)))


@kernel
def field_inverse(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = 1/a[i] for n elements, and 0 for 0."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.inverse(f.load(a, i)))


@kernel
def field_to_montgomery(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Convert n canonical integers a[i] to Montgomery form."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.load(a, i) * f.constant(spec.modulus.montgomery_radix))


@kernel
def field_from_montgomery(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Convert n elements a[i] in Montgomery form to canonical integers."""
    f, i = field_arithmetic(k, spec), k.global_id()
    inverse = pow(spec.modulus.montgomery_radix, -1, spec.modulus.value)
    with k.if_(i < n):
        f.store(out, i, f.load(a, i) * f.constant(inverse))


@kernel
def field_sum(
    k: Builder, n: U32, terms: U32, a: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Compute out[i] = the sum of a[i + j*n] over j below `terms`, for n sums."""
    f, i = field_arithmetic(k, spec), k.global_id()
    with k.if_(i < n):
        # The difference is 0, in the Montgomery radix of loaded elements.
        with k.range(0, terms, carry=f.bounded(f.load(a, i) - f.load(a, i))) as loop:
            loop.next(f.bounded(loop.carried + f.load(a, i + loop.index * n)))
        f.store(out, i, loop.results)


for _modulus in MODULI.values():
    for _definition in (
        field_add, field_subtract, field_multiply, field_square, field_inverse,
        field_to_montgomery, field_from_montgomery, field_sum,
    ):  # fmt: skip
        _short = _definition.name.removeprefix("field_")
        register(f"field.{_short}[{_modulus.name}]", _definition, spec=_modulus)
