"""Estimates of the memory of a key before it is opened: upper bounds from its header's counts."""

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

# Additional bytes per matrix entry, and bytes per row, while the entries are sorted.
_ENTRY_BYTES, _ROW_BYTES = 40, 32
# Additional bytes per base: an index, and whether it is infinity.
_BASE_BYTES = 5
# Vectors of the domain's size on a device: three, and NTT tables of at most two more.
_VECTORS = 5
# Witnesses on a device: one is uploaded while another is proved.
_WITNESSES = 2
_NO_LIMIT = 1 << 62


@frozen
class KeyCounts:
    """The counts of a key.

    curve: the name of the curve.
    variables: the number of wires, including the constant 1.
    public: the number of public inputs.
    domain: the size of the evaluation domain.
    entries: the number of entries of the matrices A and B.
    """

    curve: str
    variables: int
    public: int
    domain: int
    entries: int

    def bases(self) -> list[KeyBases]:
        """Return placeholder bases of the right sizes without memory; no point is at infinity."""
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
    """Return the bytes of host memory, by purpose, of a key on the host, without its file."""
    bases = sum(
        key_bases.points.nbytes + _BASE_BYTES * len(key_bases.points) for key_bases in key.bases()
    )
    return {"matrices": _matrices(key), "bases": bases}


def device_parts(
    key: KeyCounts, device: AnyDevice, most: int, budget: int, lanes: int = 1,
    max_batch: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """Return the bytes of device memory, by purpose, that a key should get as `memory_budget`.

    They are those of the fastest layout within `most` bytes. If that layout streams bases from the
    host, they are those of the fastest layout within `budget`; if no layout fits, those of the
    smallest layout with resident bases. Each of the `lanes` concurrent proofs has its own vectors,
    witnesses and workspaces. Batches of up to `max_batch` witnesses get the remaining memory within
    `most` bytes.
    """
    # Imported here because devices that compute in host memory do not need it.
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
        memory = MsmMemory.fitting(device, bases, _NO_LIMIT, workspaces=(1,), multiples=(1,))
    lane_workspaces = 0 if memory.streamed else (lanes - 1) * sum(memory.workspaces)
    parts["bases and sums"] = memory.nbytes(device) + lane_workspaces
    if not memory.streamed:
        batch_budget = most - sum(parts.values())
        batch_bytes = _batch_bytes(key, device, memory, bases, element, max_batch)
        if fitting := [nbytes for nbytes in batch_bytes if nbytes <= batch_budget]:
            parts["batches"] = max(fitting)
    return parts


def _lane_bytes(key: KeyCounts, element_bytes: int, batch: int = 1) -> int:
    """Return the bytes of the vectors of one concurrent proof, or of a `batch` of witnesses.

    These are three vectors of the domain, or the products and sums of split rows if larger. For a
    batch, the latter are rounded up to whole vectors.
    element_bytes: the bytes of a field element.
    """
    from quod.groth16.gpu.matrix import DeviceMatrix

    rows = DeviceMatrix.max_elements(key.entries, 2 * key.domain)
    if batch > 1:
        rows = -(-rows // key.domain) * key.domain
    return batch * max(3 * key.domain, rows) * element_bytes


def _batch_bytes(
    key: KeyCounts, device: AnyDevice, memory: MsmMemory, bases: list[KeyBases], element_bytes: int,
    max_batch: int | None,
) -> list[int]:  # fmt: skip
    """Return the bytes of the memory for batches, for each batch size: 2, 4 and so on."""
    from quod.groth16.gpu.batch_prover import BATCHES, batch_size, batch_sizes

    witness = key.variables * element_bytes
    sizes = batch_sizes(
        batch_size(
            device, key.domain, max(_lane_bytes(key, element_bytes, 2) // 2, witness), max_batch
        )
    )
    workspaces = memory.batch_workspaces(device, bases, sizes)
    return [
        _lane_bytes(key, element_bytes, batch) + workspaces[batch] + BATCHES * batch * witness
        for batch in sizes
    ]


def _matrices(key: KeyCounts) -> int:
    entry_bytes = coefficient_dtype(CURVES[key.curve].fr.words).itemsize
    return (entry_bytes + _ENTRY_BYTES) * key.entries + _ROW_BYTES * 2 * key.domain
