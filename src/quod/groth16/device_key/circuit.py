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
    """The sums a, b and c of each wire: of its entries of A, B and C times a value of each row."""

    def scalars(self, name: str, weights: Buffer, first: int, out: Buffer) -> None:
        """Write weights[0]·a + weights[1]·b + weights[2]·c of the wires of bases to `out`.

        name: A, B1, B2, C, or ic for the constant and the public wires.
        weights: in Montgomery form; the results are canonical.
        first: the first base of `out`.
        """


class DeviceCircuit(SizedCircuit, Protocol):
    """A constraint system that a device can hold."""

    @property
    def fr(self) -> Modulus:
        """The scalar field."""
        ...

    @property
    def log2_domain(self) -> int:
        """The domain's size: a power of two above the constraints and public inputs."""
        ...

    @property
    def monomial(self) -> bool:
        """True if the key has bellman's root of unity and monomials as points h; see `Zkey`."""
        ...

    @property
    def wires_of_a(self) -> NDArray[np.uint32]:
        """The wires with an entry in A, in ascending order; all public ones have one."""
        ...

    @property
    def wires_of_b(self) -> NDArray[np.uint32]:
        """The wires with an entry in B, in ascending order."""
        ...

    @property
    def full_values(self) -> dict[str, int]:
        """Expected numbers of values other than 0 and 1: of all wires (A, C), and of those in B.

        A witness with more is proved, too; its proof allocates memory.
        """
        ...

    @property
    def matrix_bytes(self) -> int:
        """The bytes of device memory that `matrix` takes, except for a few words."""
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
