"""What a kernel is traced for."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SHARED_BYTES = 48 * 1024
"""Shared memory that every CUDA device gives a workgroup without asking."""


@dataclass(frozen=True)
class Machine:
    """The target of one trace: a language, the instances a workgroup, and the features there.

    `target` is ``llvm``, ``ptx`` or ``wgsl``. Features are what a kernel's strategies may ask for:
    ``ifma52`` (52-bit multiply-add in vector lanes), ``u64`` (64-bit integers), ``carry`` (carry
    chains). `shared_bytes_limit` is the most shared memory that a workgroup may declare.
    """

    target: str
    workgroup_size: int
    features: frozenset[str]
    shared_bytes_limit: int = DEFAULT_SHARED_BYTES

    def has(self, feature: str) -> bool:
        return feature in self.features
