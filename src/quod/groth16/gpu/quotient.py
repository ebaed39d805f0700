"""The quotient on a GPU: from a witness to the scalars of the H bases."""

from __future__ import annotations

import copy
from typing import Protocol

from quod.device.memory.budget import bytes_text
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError
from quod.field.cost import product_cost
from quod.field.kernels import field_multiply
from quod.field.moduli import Modulus
from quod.field.roots import RootFamily
from quod.formats import Zkey
from quod.groth16.gpu.matrix import DeviceMatrix
from quod.ntt import NttPlan
from quod.ntt.quotient import record_coset_quotient, record_quotient_coefficients


class RecordedMatrix(Protocol):
    """The matrices A and B on a device; `elements` is the number of elements of their products."""

    @property
    def elements(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

    def record(self, recording: RecordingStream, vector: Buffer, out: Buffer) -> None:
        """See `DeviceMatrix.record`."""


class Quotient:
    """The matrices of a key on a device, and memory for their products with a witness.

    monomial: whether the bases of H are monomials, as in arkworks, so that the scalars are
        coefficients.
    lane_bytes: bytes of the product vectors of one witness.
    Raises DeviceError if there is too little memory.
    """

    def __init__(
        self,
        device: AnyDevice,
        modulus: Modulus,
        log2_domain: int,
        matrix: RecordedMatrix,
        *,
        monomial: bool = False,
    ) -> None:
        self.device = self._device = device
        self._fr, self._matrix = modulus, matrix
        self._size = 1 << log2_domain
        self.lane_bytes = max(3 * self._size, matrix.elements) * modulus.bytes
        self._products = device.allocate(self.lane_bytes, zero=False)
        self._monomial = monomial
        family: RootFamily = "arkworks" if monomial else "snarkjs"
        self._domain = NttPlan(device, modulus, log2_domain, family)
        self._multiply = device.compile(field_multiply, spec=modulus)

    @classmethod
    def of(cls, device: AnyDevice, zkey: Zkey) -> Quotient:
        """Upload the matrices of a key and return its quotient.

        Raises DeviceError if a kernel cannot address a vector, or the matrices exceed the memory
        budget.
        """
        fr, n = zkey.fr, zkey.domain_size
        vector_bytes, max_bytes = max(3 * n, zkey.variables) * fr.bytes, device.largest_buffer
        if vector_bytes > max_bytes:
            raise DeviceError(
                f"{zkey.path} has {zkey.constraints} constraints over {zkey.variables} "
                f"variables, whose vectors take {bytes_text(vector_bytes)}, and a kernel of "
                f"this device can address {bytes_text(max_bytes)}; prove on a device that "
                "can address more, or with --device cpu"
            )
        needed_bytes = DeviceMatrix.peak_bytes(fr, len(zkey.coefficients), 2 * n)
        device.check_budget(f"the matrices of {zkey.path}", needed_bytes)
        matrix = DeviceMatrix.from_coefficients(
            device, fr, zkey.coefficients, n, zkey.variables, owned=zkey.owned
        )
        return cls(device, fr, zkey.log2_domain, matrix, monomial=zkey.monomial)

    def sibling(self, batch: int = 1) -> Quotient:
        """Return a quotient with the same matrices and separate vectors for `batch` witnesses."""
        quotient = copy.copy(self)
        quotient._products = self._device.allocate(self.batch_bytes(batch), zero=False)
        return quotient

    def batch_bytes(self, batch: int) -> int:
        """Return the bytes of the product vectors of `batch` witnesses."""
        if batch == 1:
            return self.lane_bytes
        vectors = max(3, -(-self._matrix.elements // self._size))
        return vectors * batch * self._size * self._fr.bytes

    @property
    def nbytes(self) -> int:
        """The bytes of device memory, including the tables of the NTTs."""
        tables = self._domain.peak_bytes(batch=3, ordering="NR")
        return self._matrix.nbytes + self._products.nbytes + tables

    def record(self, recording: RecordingStream, witness: Buffer, batch: int = 1) -> Buffer:
        """Record the quotient; return the scalars of the bases of H.

        These are the values of A*B - C on the odd coset (see `quod.groth16.prover`) or, for
        monomial bases, the coefficients of (A*B - C)/Z, where Z is the vanishing polynomial.
        witness: canonical integers; for a `batch`, that many witnesses, concatenated.
        Scalars are canonical integers, in the same order.
        """
        self.record_products(recording, witness, batch)
        return self.record_transforms(recording, batch)

    def record_products(self, recording: RecordingStream, witness: Buffer, batch: int = 1) -> None:
        """Record A*w, B*w and their pointwise product; see `record` for the arguments."""
        fr, n, matrix = self._fr, batch * self._size, self._matrix
        if batch == 1:
            matrix.record(recording, witness, self._products)
        else:
            assert isinstance(matrix, DeviceMatrix)
            stride = witness.nbytes // (batch * fr.bytes)
            matrix.record_vectors(recording, batch, stride, self._size, witness, self._products)
        a, b, c = self._product_vectors(batch)
        recording.launch(
            self._multiply, -(-n // self._device.lanes), n, a, b, c, label="A·w ∘ B·w",
            bytes=3 * a.nbytes, modmuls=n, multiply_adds=n * product_cost(fr),
        )  # fmt: skip

    def record_transforms(self, recording: RecordingStream, batch: int = 1) -> Buffer:
        """Record the NTTs and the computation of the scalars; return the scalars."""
        a, _, c = self._product_vectors(batch)
        evaluations = self._products.slice(0, 3 * c.nbytes)
        record = record_quotient_coefficients if self._monomial else record_coset_quotient
        record(recording, self._domain, evaluations, a, batch=batch)
        return a

    def _product_vectors(self, batch: int) -> tuple[Buffer, Buffer, Buffer]:
        """Return the vectors of A*w, of B*w and of their pointwise product."""
        vector_bytes = batch * self._size * self._fr.bytes
        a, b, c = (
            self._products.slice(start, start + vector_bytes)
            for start in range(0, 3 * vector_bytes, vector_bytes)
        )
        return a, b, c
