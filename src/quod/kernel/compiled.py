"""What a device makes of a kernel, as far as the language knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType


class Compiled(Protocol):
    """A kernel in code of a device.

    `slots` are the numbers and pointers that its parameters are made of, `lanes` is how many
    instances a workgroup has.
    """

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, ParameterType]: ...
    @property
    def slots(self) -> Mapping[str, Type]: ...
    @property
    def lanes(self) -> int: ...
