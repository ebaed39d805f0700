"""A proving key on a device whose memory is the host's: bases stay where the zkey has them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.operations import is_finite
from quod.device.cancellation import Cancellation
from quod.device.protocol import HostDevice
from quod.device.timeline import Stage, Timeline
from quod.device.together import together
from quod.field.array import Words
from quod.field.cost import product_cost
from quod.formats import Zkey
from quod.groth16.resident import Tasks
from quod.groth16.sparse import HostMatrix, multiply_pointwise
from quod.msm import MsmBases, msm
from quod.ntt import NttPlan, coset_quotient

# Parts of a proof at a time: enough to fill the gaps, few enough that memory stays small.
_AT_ONCE = 2

# Bases are copied without their points at infinity where so many are left out.
_WORTH_COPYING = 0.1


class Bases:
    """The bases of one MSM of a proof and which scalars they belong to.

    Points at infinity, of which a key has one for each variable that a matrix does not use, are
    left out where they are many.
    """

    def __init__(self, device: HostDevice, group: Group, points: Words, first: int = 0) -> None:
        # Points may begin at an odd place of the file.
        points = np.require(points, requirements=("C", "A"))
        finite = np.flatnonzero(is_finite(device, group, points))
        self.chosen: NDArray[np.intp] | slice
        if len(finite) < (1 - _WORTH_COPYING) * len(points):
            self.chosen = finite + first
            points = points[finite]
        else:
            self.chosen = slice(first, first + len(points))
        self.resident = MsmBases(device, group, points)

    @property
    def group(self) -> Group:
        return self.resident.group

    def peak_bytes(self) -> int:
        """A bound on the memory that their MSM takes, with the scalars that are gathered for it."""
        count, bases = len(self.resident), self.resident.on_cpu
        assert bases is not None
        gathered = 0 if isinstance(self.chosen, slice) else count * self.group.scalars.bytes
        return gathered + bases.plan(count, None).peak_bytes(bases.device.threads)

    def scalars(self, vector: Words) -> Words:
        """The scalars of these bases out of all of them."""
        return vector[self.chosen]


class HostKey:
    """See `ResidentKey`."""

    def __init__(
        self, zkey: Zkey, device: HostDevice, g1: Group, g2: Group, timeline: Timeline
    ) -> None:
        self._device, self._zkey = device, zkey
        # One proof after another, each with all of the device.
        self._computing = threading.Lock()
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
            self._bases = {
                "B2": Bases(device, g2, zkey.b_g2),
                "A": Bases(device, g1, zkey.a),
                "C": Bases(device, g1, zkey.c, zkey.public + 1),
                "B1": Bases(device, g1, zkey.b_g1),
            }
            self._h = Bases(device, g1, zkey.h)
        with timeline.stage("transforms"):
            self._domain = NttPlan(device, zkey.fr, zkey.log2_domain, family="snarkjs")

    @property
    def peak_bytes(self) -> int:
        evaluations = 3 * self._zkey.domain_size * self._zkey.fr.bytes
        h = evaluations + max(self._domain.peak_bytes(batch=3), self._h.peak_bytes())
        parts = sorted([h, *(bases.peak_bytes() for bases in self._bases.values())])
        return sum(parts[-_AT_ONCE:])

    def start(self, witness: Words, beside: Tasks, timeline: Timeline, stage: Stage) -> _Parts:
        return _Parts(self, np.ascontiguousarray(witness), beside, timeline, stage)

    def close(self) -> None:
        """Nothing waits for work here."""


class _Parts:
    """The sums of a proof, and what else does not wait for them, computed beside each other.

    Each part has phases that keep one core busy at most, which the others fill.
    """

    def __init__(
        self, key: HostKey, witness: Words, beside: Tasks, timeline: Timeline, stage: Stage
    ) -> None:
        self._key = key
        self._witness = witness
        self._beside = beside
        self._timeline = timeline
        self._stage = stage
        self._cancellation = Cancellation()
        self._late: dict[str, Point] = {}

    def early(self) -> dict[str, Any]:
        """Computes all parts: cores that one of them leaves idle are another's."""
        tasks: dict[str, Callable[[], Any]] = {"H": self._sum_of_h}
        for name, bases in self._key._bases.items():
            tasks[name] = functools.partial(self._sum, name, bases, self._witness)
        tasks |= self._beside
        guarded = {name: functools.partial(self._guarded, task) for name, task in tasks.items()}
        with self._key._computing:
            # What runs when another fails ends soon.
            parts = together(guarded, _AT_ONCE, "quod-proof", self._cancellation.cancel)
        self._late = {name: parts.pop(name) for name in ("C", "H")}
        return parts

    def last(self) -> dict[str, Point]:
        return self._late

    def close(self) -> None:
        """Nothing is left to be given back."""

    def _guarded(self, task: Callable[[], Any]) -> Any:
        self._cancellation.check("the proof")
        with self._cancellation:
            return task()

    def _sum_of_h(self) -> Point:
        return self._sum("H", self._key._h, self._quotient())

    def _quotient(self) -> Words:
        """The scalars of the H bases: A*B - C on the odd coset, canonical."""
        key, timeline = self._key, self._timeline
        device, zkey, matrix = key._device, key._zkey, key._matrix
        fr, n = zkey.fr, zkey.domain_size
        with timeline.stage("quotient", parent=self._stage):
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
            products = 3 * n * max(1, zkey.log2_domain)
            with timeline.stage(
                "transforms", bytes=6 * 2 * n * fr.bytes, modmuls=products,
                multiply_adds=products * product,
            ):  # fmt: skip
                coset_quotient(key._domain, evaluations, a)
        return a

    def _sum(self, name: str, bases: Bases, scalars: Words) -> Point:
        with self._timeline.stage(f"MSM {name}", parent=self._stage):
            return msm(
                bases.resident.device,
                bases.group,
                bases.resident,
                bases.scalars(scalars),
                timeline=self._timeline,
            )
