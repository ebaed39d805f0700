"""What a kernel is traced for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The target of one trace: a language, the instances a workgroup, and the features there.

    `target` is ``llvm``, ``ptx`` or ``wgsl``. Features are what a kernel's strategies may ask for:
    ``ifma52`` (52-bit multiply-add in vector lanes), ``u64`` (64-bit integers), ``carry`` (carry
    chains).
    """

    target: str
    workgroup_size: int
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        return feature in self.features
