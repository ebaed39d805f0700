"""Probes of unreported adapter behaviour, by small kernels with known results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quod.codegen.wgsl.machine import EMULATED_SUBGROUP_SIZE
from quod.device.webgpu.copies import download
from quod.device.webgpu.encoding import Encoding, bind_group
from quod.device.webgpu.kernel import StorageRange
from quod.device.webgpu.memory import allocation_and_offset
from quod.device.webgpu.shaders import LOOP_COUNT, LOOPS, SUBGROUP_LANES, SUBGROUPS
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.memory.buffer import Array
    from quod.device.webgpu.adapter import AdapterProperties
    from quod.device.webgpu.session import Session

_PARAMETER_BYTES = 16


@frozen
class ProbeResult:
    """Results of the probes of an adapter.

    subgroup_size: 0 if subgroups are not consecutive instances of one size, or are too small.
    drops_long_loops: the driver stops an instance's loops after a number of iterations, without an
    error. Mesa's lavapipe does so once they add up to 65,535.
    """

    subgroup_size: int
    drops_long_loops: bool


def probe(session: Session, properties: AdapterProperties) -> ProbeResult:
    """Run the probes; raise DeviceError if the adapter does not compute at all."""
    size = 0
    if "subgroup" in session.gpu.features and properties.has_one_subgroup_size:
        indices = _run(session, "subgroups", SUBGROUPS, 2 * SUBGROUP_LANES).reshape(-1, 2)
        size = _regular_size(indices)
    state = _run(session, "loops", LOOPS, 2)
    return ProbeResult(size, int(state[1]) != LOOP_COUNT)


def _regular_size(indices: Array) -> int:
    """Return the size of subgroups if they are consecutive instances of equal number, else 0.

    Returns 0, too, below 32 instances: kernels are written for at least that many.
    """
    size = int(indices[0, 0])
    if size < EMULATED_SUBGROUP_SIZE or size & (size - 1) or (indices[:, 0] != size).any():
        return 0
    expected_indices = np.arange(len(indices)) % size
    return size if (indices[:, 1] == expected_indices).all() else 0


def _run(session: Session, name: str, text: str, words: int) -> Array:
    """Run one workgroup of a kernel on a zeroed array, and return the array."""
    memory = session.memory.allocate(4 * words)
    allocation, _ = allocation_and_offset(memory)
    group: Any = bind_group(
        session, session.nothing, _PARAMETER_BYTES, (StorageRange(allocation, 0, allocation.size),)
    )
    encoding = Encoding(session)
    encoding.dispatch(session.compiler.compile(name, text, 1), group, 0, (1, 1))
    session.wait_for(session.queue.submit(encoding.encoder, lambda: f"the probe {name}", memory))
    result = np.zeros(words, np.uint32)
    download(session, memory, result.view(np.uint8))
    return result
