"""The kernels that first proofs compile on usual GPUs, collected by recording such proofs.

Recordings depend on the sizes of a key and on the limits of a GPU. Keys of many sizes are therefore
recorded on devices without memory (`quod.device.cuda.planning`). Only the number of points matters,
and which of them are at infinity; so they are neither on the curve nor different from one another.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.device.cuda.planning import FLAG_BYTES, GpuModel, PlannedKernel, PlanningDevice
from quod.device.memory.buffer import Buffer
from quod.device.protocol import HostDevice
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words
from quod.formats import Zkey, coefficient_dtype
from quod.frozen import frozen
from quod.groth16.gpu.key import GpuKey
from quod.groth16.warm_up import check_kernels
from quod.msm.gpu.reduce.finish import combine_lines, weigh_lines
from quod.ntt.tables import store_of

CURVE_NAMES = ("bn254", "bls12_381")
"""The curves of circom's and of Zcash's circuits."""

LOG2_DOMAINS = range(8, 23)

# Every number of bits of a window occurs among these sizes, and so each variant of the kernels that
# sort.
_VARIABLES = (0.7, 1.0)
"""Numbers of variables to record, in shares of the domain; of large domains the last one only."""

_LARGE = 20

_INFINITE_EVERY = 8
"""The distance of points at infinity among those of A and of B in a sparse key; with so many, MSMs
omit them (see `KeyBases`)."""


def host_kernels(device: HostDevice, curves: Sequence[str] = CURVE_NAMES) -> list[PlannedKernel]:
    """Return the kernels that first proofs on a GPU compile for the host, a device like `device`.

    They finish the sums, multiply a few points, and verify the proof.
    """
    kernels = []
    for curve in curves:
        groups = GROUPS[f"{curve}.g1"], GROUPS[f"{curve}.g2"]
        kernels += [
            PlannedKernel(definition, device.lanes, {"group": group, "form": "weierstrass"})
            for group in groups
            for definition in (weigh_lines, combine_lines)
        ]
        kernels += [PlannedKernel(*kernel) for kernel in check_kernels(device, curve, groups)]
    return kernels


class _ProofDevice(PlanningDevice):
    """Reports whether bases have multiples at infinity, for which MSMs have other kernels.

    Bases are computed while a proof is recorded, and recordings that began before may still assume
    that none is infinite. So the kernels of both reports are needed.
    """

    def __init__(self, model: GpuModel, *, infinite: bool) -> None:
        super().__init__(model)
        self._infinite = infinite
        self._flags = 0

    def download(self, buffer: Buffer, array: Any) -> None:
        """See `PlanningDevice`. Of two flags of each buffer of bases the first is the report."""
        super().download(buffer, array)
        if array.nbytes == FLAG_BYTES:
            self._flags += 1
            if self._flags % 2 and not self._infinite:
                array.view(np.uint32).fill(0)


@frozen
class _Shape:
    curve: str
    log2_domain: int
    variables: int
    sparse: bool


def first_proof_kernels(
    models: Sequence[GpuModel],
    curves: Sequence[str] = CURVE_NAMES,
    log2_domains: Sequence[int] = LOG2_DOMAINS,
    report_progress: Callable[[str], None] = lambda text: None,
) -> dict[str, list[PlannedKernel]]:
    """Return the kernels of first proofs for each architecture of `models`.

    report_progress: called with a description of each size of key.
    A key of domain 2**22 takes up to 5 GB of host memory.
    """
    kernels: dict[str, dict[tuple[Any, ...], PlannedKernel]] = {model.arch: {} for model in models}
    for shape in _shapes(curves, log2_domains):
        report_progress(
            f"{shape.curve}, domain 2**{shape.log2_domain}, {shape.variables} variables"
        )
        zkey = _key(shape)
        for model in models:
            for infinite in (False, True):
                for kernel in _recorded(zkey, _ProofDevice(model, infinite=infinite)):
                    kernels[model.arch][_identity(kernel)] = kernel
                # Keys in use form cycles, and hold gigabytes.
                gc.collect()
        del zkey
    return {
        arch: [by_identity[identity] for identity in sorted(by_identity)]
        for arch, by_identity in kernels.items()
    }


def _identity(kernel: PlannedKernel) -> tuple[Any, ...]:
    static = sorted((name, repr(value)) for name, value in kernel.static.items())
    function = kernel.definition.function
    return function.__module__, kernel.definition.name, kernel.lanes, *map(str, static)


def _shapes(curves: Sequence[str], log2_domains: Sequence[int]) -> Iterator[_Shape]:
    for curve in curves:
        for log2_domain in log2_domains:
            for share in _VARIABLES if log2_domain < _LARGE else _VARIABLES[-1:]:
                variables = int(share * (1 << log2_domain)) - 2
                for sparse in (False, True):
                    yield _Shape(curve, log2_domain, variables, sparse)


def _recorded(zkey: Zkey, device: PlanningDevice) -> list[PlannedKernel]:
    """Record a proof; return the kernels that the device was asked for."""
    g1, g2 = (GROUPS[f"{zkey.curve}.g{index}"] for index in (1, 2))
    key = GpuKey(zkey, device, g1, g2, Timeline())
    key.slots.acquire()
    key.close()
    store_of(device).release()
    return device.kernels


def _key(shape: _Shape) -> Zkey:
    """Return a key of this shape, with one row of more entries than one lane adds."""
    g1, g2 = (GROUPS[f"{shape.curve}.g{index}"] for index in (1, 2))
    size, variables, public = 1 << shape.log2_domain, shape.variables, 1
    coefficients = np.zeros(2 * size, coefficient_dtype(CURVES[shape.curve].fr.words))
    numbers = np.arange(len(coefficients), dtype=np.uint32)
    coefficients["matrix"] = numbers % 2
    # A quarter of the entries is in the first row.
    coefficients["constraint"] = np.where(numbers < size // 2, 0, numbers // 2)
    coefficients["signal"] = numbers % variables

    def points(group: Any, count: int, *, sparse: bool = False) -> Words:
        words = np.ones((count, *group.shape), np.uint32)
        if sparse:
            words[::_INFINITE_EVERY] = 0
        return words

    constants = {
        "alpha_g1": g1, "beta_g1": g1, "delta_g1": g1, "beta_g2": g2, "gamma_g2": g2,
        "delta_g2": g2,
    }  # fmt: skip
    return Zkey.from_arrays(
        f"a key of {shape.variables} variables", curve=shape.curve, public=public,
        domain_size=size, constraints=size - public - 1, coefficients=coefficients, owned=True,
        ic=points(g1, public + 1), a=points(g1, variables, sparse=shape.sparse),
        b_g1=points(g1, variables, sparse=shape.sparse),
        b_g2=points(g2, variables, sparse=shape.sparse),
        c=points(g1, variables - public - 1), h=points(g1, size),
        **{name: points(group, 1)[0] for name, group in constants.items()},
    )  # fmt: skip
