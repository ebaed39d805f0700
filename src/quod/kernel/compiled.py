"""The interface of a compiled kernel that the kernel language relies on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType


class Compiled(Protocol):
    """A kernel compiled for a device.

    parameters: the declared parameters.
    slots: the scalars and pointers that the parameters consist of.
    lanes: instances in a workgroup.
    """

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, ParameterType]: ...
    @property
    def slots(self) -> Mapping[str, Type]: ...
    @property
    def lanes(self) -> int: ...
