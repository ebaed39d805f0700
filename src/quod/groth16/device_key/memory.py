"""The memory of a key and its proofs on a device, part by part."""

from __future__ import annotations

from functools import cached_property

from quod.device.memory.budget import bytes_text
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.frozen import frozen
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

# Registers of the programs that compute witnesses (`quod.r1cs.executor`), with their tables.
_PROGRAM_BYTES = 2 << 30

# Inverse transforms and coset transforms have separate tables.
_DIRECTIONS = 2


@frozen
class KeyMemory:
    """The memory of a key on a device, and its MSMs."""

    device: AnyDevice
    circuit: DeviceCircuit

    @cached_property
    def quotient(self) -> GpuMsmPlan:
        """The plan of the MSM over H."""
        group = group_of(self.circuit, 1)
        return plain_plan(self.device, group, counts(self.circuit)["H"][1])

    def sums(self, name: str, room: int) -> BinaryScalarMsm:
        """Return an MSM over the witness with a capacity of `room` scalars other than 0 and 1."""
        degree, count = counts(self.circuit)[name]
        return BinaryScalarMsm(self.device, group_of(self.circuit, degree), count, room)

    @cached_property
    def rooms(self) -> dict[str, int]:
        """By split: the capacity for scalars other than 0 and 1, for a witness of the circuit."""
        full_values = self.circuit.full_values
        full_counts = {"A": full_values["A"], "B": full_values["B"], "C": full_values["A"]}
        return {name: SplitCounts(0, count).room for name, count in full_counts.items()}

    @cached_property
    def workspace(self) -> int:
        """The bytes of the workspace shared by the MSMs over the witness."""
        rooms = self.rooms
        return max(
            self.sums(name, rooms[split_name]).workspace_bytes
            for name, split_name in WITNESS_MSMS.items()
        )

    @cached_property
    def parts(self) -> dict[str, int]:
        """The bytes of each part."""
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
        return {
            **{f"bases {name}": nbytes for name, nbytes in base_bytes(circuit).items()},
            "matrices A and B": circuit.matrix_bytes,
            "A·w, B·w, C·w": 3 * domain * element,
            "tables of transforms": tables,
            # Each is copied from where it was computed.
            "witnesses": 2 * WITNESSES * circuit.wires * element,
            "programs of witnesses": min(_PROGRAM_BYTES, circuit.wires * element),
            "lists of ones and others": WITNESSES
            * sum(map(ScalarSplit.nbytes, base_counts.values())),
            "workspace of MSM H": workspace_bytes(device, self.quotient),
            "workspace of the other MSMs": self.workspace,
        }

    @property
    def nbytes(self) -> int:
        """The sum of the parts."""
        return sum(self.parts.values())

    def check(self) -> None:
        """Raise DeviceError with the parts if they exceed the device's budget."""
        budget = self.device.memory_budget
        if self.nbytes > budget:
            parts_text = ", ".join(
                f"{name} {bytes_text(size)}" for name, size in self.parts.items()
            )
            raise DeviceError(
                f"{self.circuit.path} takes {bytes_text(self.nbytes)} of {self.device.name}, whose "
                f"budget is {bytes_text(budget)}: {parts_text}; take a smaller domain"
            )
