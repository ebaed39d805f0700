"""Memory estimates of a key that is not open yet: upper bounds from the counts of its header."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.formats.zkey.file import coefficient_dtype
from quod.frozen import frozen
from quod.groth16.resident import KeyBases

if TYPE_CHECKING:
    from quod.groth16.gpu.bases import MsmMemory

# Bytes of an entry of the matrices beside the entry, and of a row, while they are put in order.
_ENTRY, _ROW = 40, 32
# Of a base: an index, and whether it is infinity.
_BASE = 5
# Vectors of the domain on a device: three, and tables of transforms that are at most two more.
_VECTORS = 5
# Witnesses on a device: one is copied while another is proved.
_WITNESSES = 2
_ANY_BYTES = 1 << 62


@frozen
class KeyCounts:
    """The counts of a key.

    curve: the name of the curve.
    variables: wires with the constant 1.
    public: public inputs.
    domain: the size of the domain.
    entries: entries of the matrices A and B.
    """

    curve: str
    variables: int
    public: int
    domain: int
    entries: int

    def bases(self) -> list[KeyBases]:
        """Placeholder bases of the right sizes without memory; no point is at infinity."""
        key_bases = []
        for name, degree, count in (
            ("B2", 2, self.variables), ("A", 1, self.variables), ("B1", 1, self.variables),
            ("C", 1, self.variables - self.public - 1), ("H", 1, self.domain),
        ):  # fmt: skip
            group = GROUPS[f"{self.curve}.g{degree}"]
            points = np.broadcast_to(np.zeros((1, *group.shape), np.uint32), (count, *group.shape))
            key_bases.append(KeyBases(name, group, points, 0, points, None))
        return key_bases


def host_parts(key: KeyCounts) -> dict[str, int]:
    """Bytes of host memory, by purpose, of a key that proves on the host; without its file."""
    bases = sum(
        key_bases.points.nbytes + _BASE * len(key_bases.points) for key_bases in key.bases()
    )
    return {"matrices": _matrices(key), "bases": bases}


def device_parts(
    key: KeyCounts, device: AnyDevice, most: int, budget: int, lanes: int = 1,
    together: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """Bytes of device memory, by purpose, to give a key (`memory_budget` of `ProvingKey`).

    The fastest layout within `most` bytes; if that streams bases from the host, the fastest within
    `budget`; if none fits, the bytes of the smallest layout with resident bases. Each of the
    `lanes` has separate vectors, witnesses and workspaces. Batches of up to `together` witnesses
    get the memory that is left within `most` bytes.
    """
    # Imported here, as devices that compute in host memory do without it.
    from quod.groth16.gpu.bases import MsmMemory

    element = CURVES[key.curve].fr.bytes
    parts = {
        "matrices": _matrices(key),
        "transforms": _VECTORS * key.domain * element,
        "witnesses": lanes * _WITNESSES * key.variables * element,
    }
    if lanes > 1:
        parts["lanes"] = (lanes - 1) * _lane_bytes(key, element)
    fixed, bases = sum(parts.values()), key.bases()
    memory = None
    for limit in (most, budget):
        with suppress(DeviceError):
            memory = MsmMemory.fitting(device, bases, limit - fixed, lanes=lanes)
            if not memory.streamed:
                break
    if memory is None:
        memory = MsmMemory.fitting(device, bases, _ANY_BYTES, workspaces=(1,), copies=(1,))
    lane_workspaces = 0 if memory.streamed else (lanes - 1) * sum(memory.workspaces)
    parts["bases and sums"] = memory.nbytes(device) + lane_workspaces
    if not memory.streamed:
        batch_budget = most - sum(parts.values())
        needed = _batch_bytes(key, device, memory, bases, element, together)
        if fitting := [nbytes for nbytes in needed if nbytes <= batch_budget]:
            parts["batches"] = max(fitting)
    return parts


def _lane_bytes(key: KeyCounts, element: int, batch: int = 1) -> int:
    """Bytes of a lane's vectors: three of the domain, or the products and sums of split rows.

    For a `batch` of witnesses, that many times the bytes, rounded up to whole vectors.
    """
    from quod.groth16.gpu.matrix import DeviceMatrix

    rows = DeviceMatrix.most_elements(key.entries, 2 * key.domain)
    if batch > 1:
        rows = -(-rows // key.domain) * key.domain
    return batch * max(3 * key.domain, rows) * element


def _batch_bytes(
    key: KeyCounts, device: AnyDevice, memory: MsmMemory, bases: list[KeyBases], element: int,
    together: int | None,
) -> list[int]:  # fmt: skip
    """Bytes of a separate lane for batches, for each batch size: 2, 4 and so on."""
    from quod.groth16.gpu.batch_prover import BATCHES, batch_size, batch_sizes

    witness = key.variables * element
    sizes = batch_sizes(
        batch_size(device, key.domain, max(_lane_bytes(key, element, 2) // 2, witness), together)
    )
    workspaces = memory.batch_workspaces(device, bases, sizes)
    return [
        _lane_bytes(key, element, batch) + workspaces[batch] + BATCHES * batch * witness
        for batch in sizes
    ]


def _matrices(key: KeyCounts) -> int:
    entry = coefficient_dtype(CURVES[key.curve].fr.words).itemsize
    return (entry + _ENTRY) * key.entries + _ROW * 2 * key.domain
