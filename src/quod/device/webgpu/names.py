"""Device names of WebGPU adapters.

==========================  ======================================================================
``webgpu``                  the best adapter
``webgpu:1``                the one of that number in the list of `quod devices`
``webgpu:llvmpipe``         the first whose name has that in it, in any case
``webgpu:portable``         the best, within the limits that every implementation of WebGPU has
``webgpu:1:portable``       adapter 1, within the same limits
==========================  ======================================================================
"""

from __future__ import annotations

from typing import Literal

Strength = Literal["portable", "extended"]
STRENGTHS: tuple[Strength, ...] = ("portable", "extended")


def is_webgpu_name(name: str) -> bool:
    """Return whether a device name denotes a WebGPU adapter, present or not."""
    return name == "webgpu" or (name.startswith("webgpu:") and not name.endswith(":"))


def parse_name(name: str) -> tuple[str, Strength | None]:
    """Return the adapter and the strength that a device's name selects; None: no strength named."""
    _, _, selector = name.partition(":")
    for strength in STRENGTHS:
        if selector == strength:
            return "", strength
        if selector.endswith(f":{strength}"):
            return selector.removesuffix(f":{strength}"), strength
    return selector, None
