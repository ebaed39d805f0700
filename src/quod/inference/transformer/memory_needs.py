"""The memory that a model takes, from the metadata of its file, before any weight is read."""

from __future__ import annotations

from math import prod

from quod.device import host
from quod.device.memory.budget import check_budget
from quod.device.protocol import AnyDevice, in_host_memory
from quod.formats.gguf.file import Gguf
from quod.frozen import frozen
from quod.inference.transformer.architecture import Architecture
from quod.inference.transformer.integer_weights import stored_form

_SCALE_BYTES = 8
"""The bytes of a scale and a minimum."""
_BYTES_WHILE_READ = 4
"""The bytes of a weight while its tensor is read or packed."""
_PLAN_BYTES = 512 << 20
"""The values of a batch of texts, and blocks of weights as floats."""


@frozen
class MemoryNeeds:
    """The bytes that a model takes at least.

    host: On the host: scales and minima, and the tensor that is read.
    device: On the device: weights and cache; on a CPU in addition to those of the host.
    """

    host: int
    device: int


def memory_needs(file: Gguf, shape: Architecture, context: int, sequences: int = 1) -> MemoryNeeds:
    """Return the bytes that a model takes with a cache of `context` positions for each sequence.

    Types of tensors that the program does not read count as nothing, as they are refused later.
    """
    scales = weights = largest = 0
    for tensor in file.tensors.values():
        form = stored_form(tensor)
        if form is None:
            continue
        bits, group = form
        elements = prod(tensor.shape)
        scales += _SCALE_BYTES * elements // group
        weights += elements * bits // 8
        largest = max(largest, elements)
    cache = 4 * shape.layers * shape.kv_width * min(context, shape.context) * sequences
    return MemoryNeeds(scales + _BYTES_WHILE_READ * largest, weights + scales + cache)


def check_memory(needs: MemoryNeeds, path: str, device: AnyDevice) -> None:
    """Raise DeviceError, with the bytes, if the host or the device has too little memory."""
    what, available = f"the model {path}", host.available_memory_bytes()
    if in_host_memory(device):
        device.check_budget(what, needs.host + needs.device)
        return
    check_budget(f"{what} on the host", needs.host, available)
    device.check_budget(what, needs.device)


def plan_bytes(needs: MemoryNeeds) -> int:
    """Return the bytes that making a plan takes on the host."""
    return needs.host + _PLAN_BYTES


def check_plan_memory(needs: MemoryNeeds, path: str) -> None:
    """Raise DeviceError, with the bytes, if the host has too little memory for making a plan."""
    check_budget(f"a plan of the model {path}", plan_bytes(needs), host.available_memory_bytes())
