"""Waivers of the determinism check for the circuits of this package.

`waivers/` has one file a circuit. Each signal that is neither unique nor waived is a fault.
"""

from __future__ import annotations

from pathlib import Path

from quod.r1cs.determinism.waivers import Waiver, read_waivers


def circuit_waivers(circuit: str) -> list[Waiver]:
    """Return the waivers of ``output`` or ``masp_output``."""
    return read_waivers(Path(__file__).with_name("waivers") / f"{circuit}.json")
