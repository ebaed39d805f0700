"""The interface of a circuit whose key is made in a device's memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.moduli import Modulus
from quod.groth16.gpu.quotient import RecordedMatrix
from quod.groth16.setup import SizedCircuit


class ColumnSums(Protocol):
    """The sums a, b and c over each wire's column of A, B and C.

    Each entry of a column is multiplied by the value of its row.
    """

    def scalars(self, name: str, weights: Buffer, first: int, out: Buffer) -> None:
        """Write weights[0]·a + weights[1]·b + weights[2]·c of the wire of each base to `out`.

        name: the MSM of the bases (A, B1, B2 or C), or ic for the constant and the public wires.
        weights: in Montgomery form; the results are canonical.
        first: the index of the first base in `out`.
        """


class DeviceCircuit(SizedCircuit, Protocol):
    """A constraint system that a device can hold."""

    @property
    def fr(self) -> Modulus:
        """The scalar field."""
        ...

    @property
    def log2_domain(self) -> int:
        """The log2 of the domain's size, which exceeds the constraints and public inputs."""
        ...

    @property
    def monomial(self) -> bool:
        """True if the key has bellman's root of unity and powers of tau as points h (`Zkey`)."""
        ...

    @property
    def wires_of_a(self) -> NDArray[np.uint32]:
        """The wires with an entry in A, in ascending order; all public wires are among them."""
        ...

    @property
    def wires_of_b(self) -> NDArray[np.uint32]:
        """The wires with an entry in B, in ascending order."""
        ...

    @property
    def full_values(self) -> dict[str, int]:
        """Expected numbers of scalars other than 0 and 1: of all wires (A), and of those in B.

        The number of A is that of C, too. Proofs of witnesses with more of them allocate memory.
        """
        ...

    @property
    def matrix_bytes(self) -> int:
        """An estimate of the bytes of device memory that `matrix` takes."""
        ...

    def matrix(self, device: AnyDevice) -> RecordedMatrix:
        """Return A above B in the device's memory.

        Row i of B is element `2**log2_domain + i` of the products. After its constraints, A has a
        row with the entry 1 for the constant and for each public wire.
        """
        ...

    def columns(self, device: AnyDevice, row_values: Buffer) -> ColumnSums:
        """Return the sums over the columns; `row_values` has a canonical value for each row."""
        ...
