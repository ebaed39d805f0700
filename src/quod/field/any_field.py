"""The arithmetic of any field, prime or extension, inside kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec

if TYPE_CHECKING:
    from quod.field.arithmetic import FieldArithmetic
    from quod.kernel.builder.builder import Builder


def field_arithmetic(k: Builder, spec: FieldSpec, *, inlined: bool = False) -> FieldArithmetic[Any]:
    """Return the arithmetic of a prime field or extension; see `extension_field` for `inlined`."""
    # Imported here, as only a trace needs them. Kernels with such arithmetic are defined in every
    # process, and most processes find their code in the cache.
    from quod.field.extension import extension_field
    from quod.field.strategy import prime_field

    if isinstance(spec, Modulus):
        return prime_field(k, spec)
    return extension_field(k, spec, inlined=inlined)
