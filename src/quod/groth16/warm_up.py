"""Compilation of the self-check's kernels while the proof is computed.

On the CPU these kernels take as long to compile as all other kernels of a proof, and a proof uses
them last.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.pairing.products import final_kernel, miller_kernel
from quod.curve.weierstrass.membership import curve_check
from quod.device.protocol import HostDevice, lanes_for
from quod.device.runtime.background import Background
from quod.groth16.points import multiply_kernels
from quod.kernel.definition import KernelDefinition

_THREADS = 2
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
    definition, lanes, static = multiply_kernels(device, groups[1], _POINTS)[0]
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
    # The Miller loops of a self-check run one by one.
    loops, loop_lanes, _ = miller_kernel(device, 1)
    final, final_lanes = final_kernel(device)
    return [
        (loops, loop_lanes, {"curve": curve}),
        (final, final_lanes, {"curve": curve}),
        *multiply_kernels(device, g2, _POINTS),
        (curve_check, lanes_for(device, _POINTS), {"group": g2, "subgroup": True}),
        *multiply_kernels(device, g1, _POINTS),
    ]
