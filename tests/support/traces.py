"""Kernels traced once for all the emulated devices of a module."""

from __future__ import annotations

import functools

import pytest

from quod.kernel import KernelDefinition

_trace = functools.lru_cache(maxsize=256)(KernelDefinition.trace)


def share_traces(patch: pytest.MonkeyPatch) -> None:
    """Have each new emulated device take the traces of earlier ones.

    A device traces the kernels of a proof for itself, which takes an interpreter as long as the
    proof. It is for modules whose tests patch nothing that kernels are traced from.
    """
    patch.setattr(KernelDefinition, "trace", _trace)
