"""The limbs of field elements on an adapter, measured once and cached on disk."""

from __future__ import annotations

from quod.codegen.wgsl.machine import DEFAULT_LIMBS
from quod.device.cache.cache import CompileCache, key_of
from quod.device.webgpu.adapter import AdapterProperties

_SCHEMA = "webgpu-limbs-1"
U64_LIMBS = "29/64:rolled"


def default_limbs(properties: AdapterProperties, *, u64: bool) -> str:
    """Return the limbs of an adapter without a measurement."""
    if properties.is_software:
        return DEFAULT_LIMBS
    return U64_LIMBS if u64 else DEFAULT_LIMBS


def _key(properties: AdapterProperties, *, u64: bool) -> str:
    return key_of(
        _SCHEMA, properties.name, properties.driver, properties.backend, "u64" if u64 else "u32"
    )


def stored_limbs(cache: CompileCache, properties: AdapterProperties, *, u64: bool) -> str | None:
    """Return the stored choice of limbs for this adapter and driver, or None."""
    cached = cache.get(_key(properties, u64=u64))
    return None if cached is None else cached.decode(errors="replace")


def store_limbs(
    cache: CompileCache, properties: AdapterProperties, limbs: str, *, u64: bool
) -> None:
    """Store a choice of limbs."""
    cache.put(_key(properties, u64=u64), limbs.encode())
