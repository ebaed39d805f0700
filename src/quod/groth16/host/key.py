"""A proving key on a device that computes in host memory; bases stay in the zkey's memory."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.weierstrass.operations import is_finite
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, HostDevice
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words
from quod.field.cost import product_cost
from quod.field.roots import RootFamily
from quod.formats import Zkey
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.host.sparse_matrix import HostMatrix, multiply_pointwise
from quod.groth16.resident import SumBatches, bases_of
from quod.msm import MsmBases, msm
from quod.ntt import NttPlan, coset_quotient
from quod.ntt.quotient import quotient_coefficients

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Concurrent sums of a proof: enough to keep all cores busy, few enough that memory stays small.
_CONCURRENT_SUMS = 2

# The order in which the sums begin: the longest first.
_ORDER = ("H", "B2", "A", "C", "B1")


class HostKey:
    """See `ResidentKey`."""

    witness_device: AnyDevice | None = None
    batches: SumBatches | None = None

    def __init__(
        self, zkey: Zkey, device: HostDevice, g1: Group, g2: Group, timeline: Timeline
    ) -> None:
        self._device, self._zkey = device, zkey
        self._compute_lock = threading.Lock()
        self._process = os.getpid()
        with timeline.stage("matrices"):
            self._matrix = HostMatrix.from_coefficients(
                device,
                zkey.fr,
                zkey.coefficients,
                zkey.domain_size,
                zkey.variables,
                owned=zkey.owned,
            )
        with timeline.stage("bases"):
            key_bases = bases_of(zkey, g1, g2, functools.partial(is_finite, device))
            self._bases = {bases.name: bases for bases in key_bases}
            self._msms = {
                bases.name: MsmBases(device, bases.group, bases.used_points) for bases in key_bases
            }
        with timeline.stage("transforms"):
            family: RootFamily = "arkworks" if zkey.monomial else "snarkjs"
            self._domain = NttPlan(device, zkey.fr, zkey.log2_domain, family)

    @property
    def nbytes(self) -> int:
        matrix, zkey = self._matrix, self._zkey
        row_bytes = matrix.target.nbytes + matrix.start.nbytes + matrix.stop.nbytes
        total = row_bytes + _unshared_bytes(matrix.entries, zkey.coefficients)
        file_points = {"A": zkey.a, "B1": zkey.b_g1, "B2": zkey.b_g2, "C": zkey.c, "H": zkey.h}
        for name, bases in self._bases.items():
            indices = 0 if bases.indices is None else bases.indices.nbytes
            # One byte per base is for the infinity mask.
            total += (
                _unshared_bytes(bases.used_points, file_points[name])
                + indices
                + len(bases.used_points)
            )
        return total

    @property
    def in_progress(self) -> int:
        # The device computes one proof while the host blinds and checks another.
        return 2

    @property
    def peak_bytes(self) -> int:
        sums = {name: self._sum_bytes(name) for name in _ORDER}
        transforms = self._domain.peak_bytes(batch=3)
        sums["H"] = 3 * self._zkey.domain_size * self._zkey.fr.bytes + max(transforms, sums["H"])
        return sum(sorted(sums.values())[-_CONCURRENT_SUMS:])

    def _sum_bytes(self, name: str) -> int:
        """Return an upper bound on the bytes of an MSM, including its gathered scalars."""
        bases, msms = self._bases[name], self._msms[name]
        scalar_bytes = 0 if bases.indices is None else len(msms) * bases.group.scalars.bytes
        return scalar_bytes + msms.peak_bytes()

    def start(self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext) -> HostSums:
        return HostSums(self, np.ascontiguousarray(witness), host_tasks, context)

    def computing(self) -> threading.Lock:
        """Return the lock that a proof holds while it computes, as it uses the whole device."""
        if self._process != os.getpid():
            # If a thread held the lock at the fork, it does not exist here and never releases it.
            self._compute_lock, self._process = threading.Lock(), os.getpid()
        return self._compute_lock

    def prepare(self) -> None:
        """Do nothing: proofs need no memory in advance."""

    def close(self) -> None:
        """Do nothing: the key has no threads."""


class HostSums:
    """The sums of a proof, computed concurrently with the independent tasks; see `PendingSums`.

    Each sum has phases with at most one busy core; the other sums use the idle cores.
    """

    def __init__(
        self, key: HostKey, witness: Words, host_tasks: Tasks, context: ProofContext
    ) -> None:
        self._key, self._witness = key, witness
        self._host_tasks, self._context = host_tasks, context
        self._late: dict[str, Point] = {}

    def early(self) -> dict[str, Any]:
        """Compute all sums concurrently, and return the early ones with the tasks' results."""
        tasks: dict[str, Callable[[], Any]] = {
            name: functools.partial(self._sum, name) for name in _ORDER
        }
        with self._key.computing(), self._context.computing():
            # In a new process these tasks load kernels, which would delay the first sums.
            later, self._host_tasks = self._host_tasks, {}
            sums = self._context.run_tasks(tasks, _CONCURRENT_SUMS, later=later)
        self._late = {name: sums.pop(name) for name in ("C", "H")}
        return sums

    def last(self) -> dict[str, Point]:
        return self._late

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _sum(self, name: str) -> Point:
        bases, msms = self._key._bases[name], self._key._msms[name]
        scalars = bases.scalars(self._quotient() if name == "H" else self._witness)
        with self._context.stage(f"MSM {name}"):
            return msm(
                msms.device, bases.group, msms, scalars, timeline=self._context.timeline
            )  # fmt: skip

    def _quotient(self) -> Words:
        """Return the canonical scalars of H; see `quod.groth16.gpu.quotient.Quotient.record`."""
        key, timeline = self._key, self._context.timeline
        device, zkey, matrix = key._device, key._zkey, key._matrix
        fr, n = zkey.fr, zkey.domain_size
        with self._context.stage("quotient"):
            buffer = device.allocate(3 * n * fr.bytes)
            evaluations = buffer.view(np.uint32, (3 * n, fr.words))
            a, b, c = (evaluations[start : start + n] for start in range(0, 3 * n, n))
            product = product_cost(fr)
            with timeline.stage(
                "A·w, B·w", bytes=matrix.nonzeros * (4 + 2 * fr.bytes) + 2 * n * fr.bytes,
                modmuls=matrix.nonzeros, multiply_adds=matrix.nonzeros * product,
            ):  # fmt: skip
                matrix.multiply(self._witness, evaluations[: 2 * n])
            with timeline.stage(
                "A·w ∘ B·w", bytes=3 * n * fr.bytes, modmuls=n, multiply_adds=n * product
            ):
                multiply_pointwise(device, fr, a, b, c)
            # Six NTTs of n / 2 * log2(n) products each.
            products = 3 * n * max(1, zkey.log2_domain)
            with timeline.stage(
                "transforms", bytes=6 * 2 * n * fr.bytes, modmuls=products,
                multiply_adds=products * product,
            ):  # fmt: skip
                quotient = quotient_coefficients if zkey.monomial else coset_quotient
                quotient(key._domain, evaluations, a)
        return a


def _unshared_bytes(array: NDArray[Any], source: NDArray[Any]) -> int:
    """Return the bytes of an array, or 0 if it shares the memory of `source`."""
    return 0 if np.may_share_memory(array, source) else array.nbytes
