"""Compilation of the self-check's kernels while the proof is computed.

On the CPU these kernels take as long to compile as all other kernels of a proof, and a proof uses
them last.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.pairing.products import final_kernel, miller_kernel
from quod.curve.weierstrass.membership import curve_check
from quod.curve.weierstrass.point_kernels import curve_multiply, curve_normalise
from quod.device.protocol import HostDevice, lanes_for
from quod.device.runtime.background import Background
from quod.kernel.definition import KernelDefinition

_THREADS = 2
# The number of pairs that depend only on A and B, which are verified first.
_PAIRS = 2
# A proof has three points; its check multiplies at most as many in one launch.
_POINTS = 3


def compile_checks(device: HostDevice, curve: str, groups: tuple[Group, Group]) -> None:
    """Begin to compile the kernels that are not in the cache, if the device has several threads.

    Compilation errors are not raised here; the self-check compiles the kernel again and raises.
    """
    if device.threads == 1:
        return
    kernels = check_kernels(device, curve, groups)
    # Only these checks multiply points of G2, and their kernels are compiled together: if this one
    # is in the cache, so are the others. To look for each would delay the sums of a proof.
    definition, lanes, static = next(kernel for kernel in kernels if kernel[0] is curve_multiply)
    if device.has(definition, lanes=lanes, **static):
        return
    background = Background("quod-ahead", _THREADS)
    for definition, lanes, static in kernels:
        if not device.has(definition, lanes=lanes, **static):
            background.begin(
                lambda definition=definition, lanes=lanes, static=static: device.compile(  # type: ignore[misc]
                    definition, lanes=lanes, **static
                )
            )


def check_kernels(
    device: HostDevice, curve: str, groups: tuple[Group, Group]
) -> list[tuple[KernelDefinition, int, dict[str, Any]]]:
    """Return the kernels of a self-check with lanes and static arguments, the largest first."""
    g1, g2 = groups
    scalar_words, point_lanes = g1.scalars.bytes // 8, lanes_for(device, _POINTS)
    loops, loop_lanes, _ = miller_kernel(device, _PAIRS)
    final, final_lanes = final_kernel(device)
    return [
        (loops, loop_lanes, {"curve": curve}),
        (final, final_lanes, {"curve": curve}),
        (curve_multiply, point_lanes, {"group": g2, "scalar_words": scalar_words}),
        (curve_check, point_lanes, {"group": g2, "subgroup": True}),
        (curve_normalise, point_lanes, {"group": g2}),
        (curve_multiply, point_lanes, {"group": g1, "scalar_words": scalar_words}),
        (curve_normalise, point_lanes, {"group": g1}),
    ]
