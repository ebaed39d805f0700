"""A key from a constraint system and prepared powers of tau: what a second phase begins with.

With L_i the Lagrange polynomials of the domain at tau, as points, the key's points are sums of L_i
in G1 and G2 (a, b) and of beta * L_i, alpha * L_i and L_i (ic, c) by the columns of the matrices;
gamma and delta are the generators, so that anyone can forge proofs until somebody has contributed.
The file is the one that ``snarkjs groth16 setup`` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import from_points
from quod.curve.named import CURVES
from quod.device.cache import sources
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.field.array import Words
from quod.formats import R1cs, coefficient_dtype
from quod.formats.curves import pairing_curve
from quod.formats.iden3 import Buffer, little_u32
from quod.formats.iden3_stream import PlannedSection, places, write_planned
from quod.formats.ptau import PowersOfTau
from quod.formats.resumable import Inputs, Parts, write_resumably
from quod.formats.zkey.file import KIND, VERSION
from quod.formats.zkey.header import GROTH16
from quod.groth16.lagrange import scaled
from quod.groth16.phase2.circuit_hash import CircuitHash
from quod.groth16.phase2.lagrange_powers import LagrangePowers
from quod.groth16.phase2.lagrange_wires import WireTerms, wire_points
from quod.groth16.phase2.resumed_points import (
    EmptyPointStore,
    FilePointStore,
    PointStore,
    digest_of,
)

Combined = list[tuple[WireTerms, Words]]

# Constraints whose entries are written at a time.
_ROWS = 1 << 16

WINDOW = 1 << 16
"""Wires whose points are computed together, and are kept if the run is interrupted."""


def new_key(
    r1cs: str | PathLike[str],
    ptau: str | PathLike[str],
    zkey: str | PathLike[str],
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    replace: bool = False,
) -> bytes:
    """Write the key of a circuit before any contribution; return its circuit hash, 64 bytes.

    With `resume` it continues an interrupted run from partial files next to `zkey`, and `report`
    gets a line that says so. Existing points are hashed again.

    Raises `InputError` for damaged files, powers that are not prepared, cut short or too few for
    the circuit, and points that are not on their curves; `MismatchError` for powers over another
    curve; `OutputError` if the key cannot be written, and for an existing `zkey`, unless `replace`
    is set.
    """
    timeline = or_null(timeline)
    chosen = resolve_device(device)
    system, powers = open_inputs(r1cs, ptau)
    with timeline.stage("check powers"):
        powers.check(resolve_device("cpu"))
    with timeline.stage("read constraints"):
        _ = system.matrices
    initial_key = NewKey(chosen, system, powers, timeline)

    def check() -> None:
        for file in (system.file, powers.ptau.file):
            file.check_unchanged()

    def write(parts: Parts) -> None:
        initial_key.write(parts)
        check()

    def identity() -> str:
        return f"setup {sources.digest()} {digest_of(system.file, powers.arrays())}"

    write_resumably(
        zkey, Inputs(identity, check), write, resume=resume, report=report, replace=replace
    )
    return initial_key.hash.digest()


def domain_power(constraints: int, public: int) -> int:
    """log2 of the domain of a circuit, as snarkjs chooses it."""
    return max(1, (constraints + public).bit_length())


def open_inputs(
    r1cs: str | PathLike[str], ptau: str | PathLike[str]
) -> tuple[R1cs, LagrangePowers]:
    """A constraint system and the powers for it; raises as `new_key`, before any work."""
    system, powers = R1cs.open(r1cs), PowersOfTau.open(ptau)
    curve = pairing_curve(system.curve, system.path)
    if system.curve != powers.curve:
        raise MismatchError(
            f"{powers.path}: powers of tau over {powers.curve} do not fit a circuit "
            f"over {system.curve} ({system.path}); use powers over {system.curve}"
        )
    power = domain_power(system.constraints, system.public)
    if power > curve.fr.two_adicity:
        raise InputError(
            f"{system.constraints} constraints need a domain of 2**{power}, more than "
            f"{curve.name} has (2**{curve.fr.two_adicity}); split the circuit",
            path=system.path,
        )
    return system, LagrangePowers.open(powers, power, system.path)


class NewKey:
    """A new key, computed section by section while it is written."""

    def __init__(
        self,
        device: AnyDevice,
        system: R1cs,
        powers: LagrangePowers,
        timeline: Timeline,
        kept: PointStore | None = None,
    ) -> None:
        """`kept` is what an earlier run has made of it."""
        self._device, self._system, self._powers = device, system, powers
        self._timeline = timeline
        self._kept: PointStore = EmptyPointStore() if kept is None else kept
        self._curve = CURVES[system.curve]
        self._tied = system.public + 1
        self._domain_size = 1 << powers.power
        self.hash = CircuitHash(system.curve)
        fr, (a, b, c) = self._curve.fr, system.matrices
        with timeline.stage("columns"):
            self._a = WireTerms.of(fr, a, system.wires, self._tied)
            self._b, self._c = (WireTerms.of(fr, matrix, system.wires) for matrix in (b, c))

    def write(self, parts: Parts) -> None:
        """Write the file from front to back."""
        sections = self.sections()
        self._kept = FilePointStore(parts, places(KIND, VERSION, sections))
        write_planned(parts.file, KIND, VERSION, sections)

    def sections(self) -> list[PlannedSection]:
        """Return the sections of the file, to be made in this order, in which they are hashed as
        well.
        """
        powers, wires, tied = self._powers, self._system.wires, self._tied
        mixed = [
            (self._a, powers.beta_tau_g1), (self._b, powers.alpha_tau_g1), (self._c, powers.tau_g1),
        ]  # fmt: skip
        entries = self._a.starts[-1] + self._b.starts[-1]
        size = coefficient_dtype(self._curve.fr.words).itemsize
        g1, g2 = (4 * int(np.prod(powers.group(degree).shape)) for degree in (1, 2))
        header = self._header()
        plain, plain_g2 = [(self._a, powers.tau_g1)], [(self._b, powers.tau_g2)]

        def points(
            identifier: int, name: str, parts: Combined, first: int, last: int, degree: int = 1
        ) -> PlannedSection:
            size = g1 if degree == 1 else g2
            return PlannedSection(
                identifier,
                (last - first) * size,
                lambda: self._points(identifier, name, degree, parts, first, last),
            )

        # snarkjs's order.
        return [
            PlannedSection.of(1, little_u32(GROTH16)),
            PlannedSection.of(2, *header),
            PlannedSection(4, 4 + int(entries) * size, self._coefficients),
            points(3, "ic", mixed, 0, tied),
            PlannedSection(9, self._domain_size * g1, self._h),
            points(8, "c", mixed, tied, wires),
            points(5, "a", plain, 0, wires),
            points(6, "b_g1", [(self._b, powers.tau_g1)], 0, wires),
            points(7, "b_g2", plain_g2, 0, wires, degree=2),
            PlannedSection(10, 68, lambda: iter([self.hash.digest(), little_u32(0)])),
        ]

    def _header(self) -> list[Buffer]:
        powers, curve = self._powers.ptau, self._curve
        group1, group2 = (self._powers.group(degree) for degree in (1, 2))
        delta_g1 = from_points(group1, [curve.g1.generator])
        gamma_g2 = from_points(group2, [curve.g2.generator])
        alpha_g1, beta_g1 = powers.alpha_tau_g1[:1], powers.beta_tau_g1[:1]
        beta_g2 = powers.beta_g2[None]
        for degree, points in (
            (1, alpha_g1), (1, beta_g1), (2, beta_g2), (2, gamma_g2), (1, delta_g1), (2, gamma_g2),
        ):  # fmt: skip
            self.hash.points(degree, points)
        return [
            *(
                part
                for modulus in (curve.fq, curve.fr)
                for part in (
                    little_u32(modulus.bytes), modulus.value.to_bytes(modulus.bytes, "little"),
                )
            ),
            *map(little_u32, (self._system.wires, self._system.public, self._domain_size)),
            *(alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, gamma_g2),
        ]  # fmt: skip

    def _coefficients(self) -> Iterator[Buffer]:
        """Section 4: A and B by constraint, then the rows that tie public variables."""
        rows = self._system.constraints
        yield little_u32(int(self._a.starts[-1] + self._b.starts[-1]))
        with self._timeline.stage("coefficients") as stage:
            for first in range(0, rows, _ROWS):
                last = min(first + _ROWS, rows)
                yield self._entries(first, last)
                stage.progress(last, rows)
        ties = np.zeros(self._tied, coefficient_dtype(self._curve.fr.words))
        ties["signal"] = np.arange(self._tied)
        ties["constraint"] = rows + ties["signal"]
        ties["value"][:, 0] = 1
        yield self._stored(ties)

    def _entries(self, first: int, last: int) -> Buffer:
        matrices = self._system.matrices[:2]
        spans = [(int(m.row_ptr[first]), int(m.row_ptr[last])) for m in matrices]
        entries = np.zeros(
            sum(end - begin for begin, end in spans), coefficient_dtype(self._curve.fr.words)
        )
        at = 0
        for number, (matrix, (begin, end)) in enumerate(zip(matrices, spans)):
            part = entries[at : at + end - begin]
            lengths = np.diff(matrix.row_ptr[first : last + 1])
            part["matrix"] = number
            part["constraint"] = np.repeat(np.arange(first, last, dtype=np.uint32), lengths)
            part["signal"] = matrix.column[begin:end]
            part["value"] = matrix.value[begin:end]
            at += end - begin
        order = np.argsort(entries["constraint"] * np.uint64(2) + entries["matrix"], kind="stable")
        return self._stored(entries[order])

    def _stored(self, entries: NDArray[Any]) -> Buffer:
        """Their bytes, once values are canonical no more but as zkeys have them."""
        if len(entries):
            fr = self._curve.fr
            host = resolve_device("cpu")
            entries["value"] = scaled(host, fr, entries["value"], fr.montgomery_radix**2)
        return entries.view(np.uint8)

    def _h(self) -> Iterator[Buffer]:
        powers = self._powers
        with self._timeline.stage("h") as stage:
            for first in range(0, self._domain_size, _ROWS):
                yield powers.h[first : first + _ROWS]
            self.hash.powers(self._device, powers.ptau, self._domain_size, stage.progress)

    def _points(
        self, identifier: int, name: str, degree: int, parts: Combined, first: int, last: int
    ) -> Iterator[Buffer]:
        group = self._powers.group(degree)
        size = 8 * group.point_words
        self.hash.count(last - first)
        with self._timeline.stage(name) as stage:
            for start in range(first, last, WINDOW):
                stop = min(start + WINDOW, last)
                place = (identifier, (start - first) * size, (stop - start) * size)
                data = self._kept.find(*place)
                if data is None:
                    blocks = wire_points(self._device, group, parts, start, stop)
                    points = np.concatenate([*blocks])
                else:
                    points = np.frombuffer(data, "<u4").reshape(-1, *group.shape)
                self.hash.points(degree, points)
                stage.progress(stop - first, last - first)
                yield points
                self._kept.keep(*place)
