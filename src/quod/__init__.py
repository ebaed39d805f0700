"""Quod proves statements on whatever processor is there.

    import quod

    key = quod.ProvingKey.from_zkey("circuit.zkey")
    proof, public = key.prove("witness.wtns")
    assert key.verifying_key.verify(public, proof)

The names below load on first use (PEP 562), so that ``import quod`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.errors import (
    DeviceError,
    InputError,
    InsecureKeyError,
    KernelError,
    MismatchError,
    OutputError,
    QuodError,
    ServiceError,
    TryAgainError,
    VerificationError,
)

if TYPE_CHECKING:
    from quod.device import devices as devices
    from quod.device.cache.compilations import progress as progress
    from quod.device.runtime.timeline import Timeline as Timeline
    from quod.groth16 import Proof as Proof
    from quod.groth16 import ProvingKey as ProvingKey
    from quod.groth16 import VerifyingKey as VerifyingKey

__version__ = "0.1.0"

__all__ = [
    "ProvingKey",
    "VerifyingKey",
    "Proof",
    "Timeline",
    "devices",
    "msm",
    "ntt",
    "progress",
    "QuodError",
    "InputError",
    "MismatchError",
    "OutputError",
    "VerificationError",
    "DeviceError",
    "KernelError",
    "InsecureKeyError",
    "ServiceError",
    "TryAgainError",
    "__version__",
]

# Public name -> module that defines it.
_HOME = {
    "ProvingKey": "quod.groth16",
    "VerifyingKey": "quod.groth16",
    "Proof": "quod.groth16",
    "Timeline": "quod.device.runtime.timeline",
    "devices": "quod.device",
    "progress": "quod.device.cache.compilations",
}
# Packages that are loaded when they are first named.
_PACKAGES = (
    "msm", "ntt", "sumcheck", "transcript", "commitment", "ceremony", "lookup", "layered", "gkr",
    "groth16", "inference", "formats", "kernel", "codegen", "device", "field", "curve", "witness",
    "service", "r1cs", "zcash", "tensor", "testing",
)  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOME:
        value: object = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f"quod.{name}")
    raise AttributeError(f"module 'quod' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
