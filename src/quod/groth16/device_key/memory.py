"""The memory of a key and its proofs on a device, by purpose.

If the bases of A, C and H do not fit beside the rest, they are cut into chunks. As many chunks stay
on the device as fit; the others are streamed from the host's memory during each proof.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

from quod.device.memory.budget import bytes_text
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.frozen import frozen, replace
from quod.groth16.device_key.bases import base_bytes, counts, group_of
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.affine_bases import plain_plan
from quod.msm.gpu.run.binary_scalars import BinaryScalarMsm, ScalarSplit, SplitCounts
from quod.msm.gpu.run.workspace import workspace_bytes
from quod.ntt import NttPlan

WITNESS_MSMS = {"B2": "B", "A": "A", "B1": "B", "C": "C"}
"""The scalar split of each MSM over the witness."""

# Proofs in progress: the witness of one is copied while another is proved.
WITNESSES = 2

WITNESSES_AHEAD = 2
"""Witnesses that are computed at once during a proof, if the device has memory for them.

Each waits for large kernels of the proof, so that one alone can take longer than the proof.
"""

# Registers of the programs that compute witnesses (`quod.r1cs.executor`), with their tables.
_PROGRAM_BYTES = 2 << 30

CHUNK = 1 << 23
"""The number of bases in a chunk."""

RING = 3
"""The number of chunks being copied or in use."""

CUT = ("H", "A", "C")
"""The MSMs that are cut into chunks, the slowest first."""

# Inverse transforms and coset transforms have separate tables.
_DIRECTIONS = 2


@frozen
class KeyMemory:
    """The memory of a key on a device, and its MSMs.

    staying: bytes of chunks of bases that stay on the device; None if all bases stay.
    chunk: bases in a chunk.
    ahead: the number of witnesses that are computed at once.
    affine: whether workspaces have the scratch memory of affine sums; see `GpuMsmPlan`. Streamed
        keys wait for their bases, so they use the memory for chunks that stay.
    """

    device: AnyDevice
    circuit: DeviceCircuit
    staying: int | None = None
    chunk: int = CHUNK
    ahead: int = 1
    affine: bool = True

    @classmethod
    def fitting(cls, device: AnyDevice, circuit: DeviceCircuit, chunk: int = CHUNK) -> Self:
        """Return the memory of a key of which as much stays on the device as fits.

        Raises DeviceError with the parts if not even a key of which only B stays fits.
        """
        for ahead in (WITNESSES_AHEAD, 1):
            for affine in (True, False):
                resident = cls(device, circuit, ahead=ahead, affine=affine)
                if resident.nbytes <= device.memory_budget:
                    return resident
        streamed = cls(device, circuit, 0, chunk, affine=False)
        streamed.check()
        return replace(streamed, staying=device.memory_budget - streamed.nbytes)

    @classmethod
    def of_share(cls, device: AnyDevice, circuit: DeviceCircuit, share: float, chunk: int) -> Self:
        """Return the memory of a key of whose bases a share stays, with B and the ring of buffers.

        Raises DeviceError if the share has no room for B and the ring.
        """
        sizes = base_bytes(circuit)
        memory = cls(device, circuit, 0, chunk, affine=False)
        total = sum(sizes.values())
        staying = int(share * total) - sizes["B1"] - sizes["B2"] - memory.ring_bytes
        if staying < 0:
            raise DeviceError(
                f"{share:.0%} of the {bytes_text(total)} of a key cannot hold the bases of B and "
                f"{RING} chunks of {bytes_text(memory.chunk_bytes)}: keep a larger part on the "
                "device, or use smaller chunks"
            )
        return replace(memory, staying=staying)

    @property
    def chunk_bytes(self) -> int:
        """The bytes of the largest chunk."""
        count = min(self.chunk, max(counts(self.circuit)[name][1] for name in CUT))
        return count * 8 * group_of(self.circuit, 1).point_words

    @property
    def ring_bytes(self) -> int:
        """The bytes of the buffers to which streamed chunks are copied."""
        return RING * self.chunk_bytes

    @cached_property
    def quotient(self) -> GpuMsmPlan:
        """The plan of the MSM over H, or over a chunk of H."""
        group, count = group_of(self.circuit, 1), counts(self.circuit)["H"][1]
        return plain_plan(
            self.device, group, count if self.staying is None else min(count, self.chunk),
            affine=self.affine,
        )  # fmt: skip

    def sums(self, name: str, capacity: int) -> BinaryScalarMsm:
        """Return an MSM over the witness for up to `capacity` scalars other than 0 and 1."""
        degree, count = counts(self.circuit)[name]
        return BinaryScalarMsm(
            self.device, group_of(self.circuit, degree), count, capacity, self.affine
        )

    @cached_property
    def capacities(self) -> dict[str, int]:
        """The expected capacity of each split for scalars other than 0 and 1."""
        full_values = self.circuit.full_values
        full_counts = {"A": full_values["A"], "B": full_values["B"], "C": full_values["A"]}
        return {name: SplitCounts(0, count).capacity for name, count in full_counts.items()}

    @cached_property
    def workspace(self) -> int:
        """The bytes of the workspace shared by the MSMs over the witness."""
        capacities = self.capacities
        sizes = [
            self.sums(name, capacities[split_name]).workspace_bytes
            for name, split_name in WITNESS_MSMS.items()
        ]
        # The MSMs of a streamed key run one after the other, with one workspace.
        if self.staying is not None:
            sizes.append(workspace_bytes(self.device, self.quotient))
        return max(sizes)

    @cached_property
    def items(self) -> dict[str, int]:
        """The bytes by purpose."""
        circuit, device = self.circuit, self.device
        element, domain = circuit.fr.bytes, 1 << circuit.log2_domain
        transforms = NttPlan(
            device, circuit.fr, circuit.log2_domain,
            family="arkworks" if circuit.monomial else "snarkjs",
        )  # fmt: skip
        tables = _DIRECTIONS * transforms.peak_bytes(batch=3, ordering="NR")
        base_counts = {
            split_name: counts(circuit)[name][1] for name, split_name in WITNESS_MSMS.items()
        }
        sizes, proofs = base_bytes(circuit), WITNESSES if self.staying is None else 1
        bases = {f"bases {name}": nbytes for name, nbytes in sizes.items()}
        if self.staying is not None:
            bases = {
                "bases B1": sizes["B1"], "bases B2": sizes["B2"],
                "chunks that stay": self.staying, "chunks that are streamed": self.ring_bytes,
            }  # fmt: skip
        return {
            **bases,
            "matrices A and B": circuit.matrix_bytes,
            "A·w, B·w, C·w": 3 * domain * element,
            "tables of transforms": tables,
            # Each witness is copied from the buffer in which it was computed.
            "witnesses": (2 * proofs + self.ahead - 1) * circuit.wires * element,
            "programs of witnesses": self.ahead * min(_PROGRAM_BYTES, circuit.wires * element),
            "splits of scalars": proofs * sum(map(ScalarSplit.nbytes, base_counts.values())),
            "workspace of MSM H": (
                workspace_bytes(device, self.quotient) if self.staying is None else 0
            ),
            "workspace of the other MSMs": self.workspace,
        }

    @property
    def nbytes(self) -> int:
        """The sum of all items."""
        return sum(self.items.values())

    @property
    def opening_bytes(self) -> int:
        """The bytes while a streamed key is opened: all bases, and a copy of the largest cut."""
        if self.staying is None:
            return self.nbytes
        sizes = base_bytes(self.circuit)
        return sum(sizes.values()) + max(sizes[name] for name in CUT) + self.ring_bytes

    def check(self) -> None:
        """Raise DeviceError, which lists the items, if they exceed the device's budget."""
        budget = self.device.memory_budget
        if self.nbytes > budget:
            items_text = ", ".join(
                f"{name} {bytes_text(size)}" for name, size in self.items.items()
            )
            raise DeviceError(
                f"{self.circuit.path} takes {bytes_text(self.nbytes)} of {self.device.name}, whose "
                f"budget is {bytes_text(budget)}: {items_text}; use a device with more "
                "memory, or a smaller circuit"
            )
        if self.opening_bytes > budget and self.staying is not None:
            raise DeviceError(
                f"{self.circuit.path} takes {bytes_text(self.opening_bytes)} of {self.device.name} "
                f"while its key is opened, and the budget is {bytes_text(budget)}; use a device "
                "with more memory, or a smaller circuit"
            )
