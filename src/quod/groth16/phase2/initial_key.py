"""The initial key of a second phase, from a constraint system and prepared powers of tau.

Let L_i be the Lagrange polynomials of the domain at tau, as points. The key's points for a wire are
sums over the column of the wire in the matrices: of L_i in G1 and G2 (a, b), and of beta * L_i,
alpha * L_i and L_i for A, B and C (ic, c). Gamma and delta are the generators, so anyone can forge
proofs until there is a contribution. The file equals the output of ``snarkjs groth16 setup``.
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

TermsWithBases = list[tuple[WireTerms, Words]]
"""Pairs of the terms of wires and the Lagrange basis that they multiply; a wire's point is the sum
over all pairs.
"""

# The number of constraints whose entries are written at a time.
_ROWS_PER_CHUNK = 1 << 16

WINDOW = 1 << 16
"""The number of wires whose points are computed, and stored for resumption, at a time."""


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

    resume: whether to continue an interrupted run from partial files next to `zkey`; its points are
        hashed again.
    report: gets a line if a run is continued.

    Raises `InputError` for damaged files, for powers that are unprepared, truncated or too few for
    the circuit, and for points that are not on their curves; `MismatchError` for powers over
    another curve; `OutputError` if the key cannot be written, and for an existing `zkey`, unless
    `replace` is set.
    """
    timeline = or_null(timeline)
    resolved_device = resolve_device(device)
    system, powers = open_inputs(r1cs, ptau)
    with timeline.stage("check powers"):
        powers.check(resolve_device("cpu"))
    with timeline.stage("read constraints"):
        # The property parses them on first access.
        _ = system.matrices
    initial_key = NewKey(resolved_device, system, powers, timeline)

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
    """Return log2 of the size of a circuit's domain, as snarkjs chooses it."""
    return max(1, (constraints + public).bit_length())


def open_inputs(
    r1cs: str | PathLike[str], ptau: str | PathLike[str]
) -> tuple[R1cs, LagrangePowers]:
    """Open a constraint system and the powers for it; raises as `new_key`, before any work."""
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
        store: PointStore | None = None,
    ) -> None:
        """store: the points that an interrupted run has stored; default: none."""
        self._device, self._system, self._powers = device, system, powers
        self._timeline = timeline
        self._store: PointStore = EmptyPointStore() if store is None else store
        self._curve = CURVES[system.curve]
        self._public_wires = system.public + 1
        self._domain_size = 1 << powers.power
        self.hash = CircuitHash(system.curve)
        fr, (a, b, c) = self._curve.fr, system.matrices
        with timeline.stage("columns"):
            self._a = WireTerms.of(fr, a, system.wires, self._public_wires)
            self._b, self._c = (WireTerms.of(fr, matrix, system.wires) for matrix in (b, c))

    def write(self, parts: Parts) -> None:
        """Write the file in order; points in `parts` from an interrupted run are reused."""
        sections = self.sections()
        self._store = FilePointStore(parts, places(KIND, VERSION, sections))
        write_planned(parts.file, KIND, VERSION, sections)

    def sections(self) -> list[PlannedSection]:
        """Return the sections of the file.

        They must be generated in this order, in which the circuit hash covers them.
        """
        powers, wires, public_wires = self._powers, self._system.wires, self._public_wires
        combined_bases = [
            (self._a, powers.beta_tau_g1), (self._b, powers.alpha_tau_g1), (self._c, powers.tau_g1),
        ]  # fmt: skip
        entries = self._a.starts[-1] + self._b.starts[-1]
        coefficient_bytes = coefficient_dtype(self._curve.fr.words).itemsize
        g1_bytes, g2_bytes = (4 * int(np.prod(powers.group(number).shape)) for number in (1, 2))
        header = self._header()
        a_bases, b_bases_g2 = [(self._a, powers.tau_g1)], [(self._b, powers.tau_g2)]

        def points(
            identifier: int, name: str, terms: TermsWithBases, first: int, last: int,
            group_number: int = 1,
        ) -> PlannedSection:  # fmt: skip
            point_bytes = g1_bytes if group_number == 1 else g2_bytes
            return PlannedSection(
                identifier,
                (last - first) * point_bytes,
                lambda: self._points(identifier, name, group_number, terms, first, last),
            )

        # The order of sections in files of snarkjs.
        return [
            PlannedSection.of(1, little_u32(GROTH16)),
            PlannedSection.of(2, *header),
            PlannedSection(4, 4 + int(entries) * coefficient_bytes, self._coefficients),
            points(3, "ic", combined_bases, 0, public_wires),
            PlannedSection(9, self._domain_size * g1_bytes, self._h),
            points(8, "c", combined_bases, public_wires, wires),
            points(5, "a", a_bases, 0, wires),
            points(6, "b_g1", [(self._b, powers.tau_g1)], 0, wires),
            points(7, "b_g2", b_bases_g2, 0, wires, group_number=2),
            PlannedSection(10, 68, lambda: iter([self.hash.digest(), little_u32(0)])),
        ]

    def _header(self) -> list[Buffer]:
        """Return section 2 in parts, and hash its points."""
        powers, curve = self._powers.ptau, self._curve
        group1, group2 = (self._powers.group(number) for number in (1, 2))
        delta_g1 = from_points(group1, [curve.g1.generator])
        gamma_g2 = from_points(group2, [curve.g2.generator])
        alpha_g1, beta_g1 = powers.alpha_tau_g1[:1], powers.beta_tau_g1[:1]
        beta_g2 = powers.beta_g2[None]
        for group_number, points in (
            (1, alpha_g1), (1, beta_g1), (2, beta_g2), (2, gamma_g2), (1, delta_g1), (2, gamma_g2),
        ):  # fmt: skip
            self.hash.points(group_number, points)
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
        """Yield section 4: A and B by constraint, then the rows of public variables in A."""
        rows = self._system.constraints
        yield little_u32(int(self._a.starts[-1] + self._b.starts[-1]))
        with self._timeline.stage("coefficients") as stage:
            for first in range(0, rows, _ROWS_PER_CHUNK):
                last = min(first + _ROWS_PER_CHUNK, rows)
                yield self._entries(first, last)
                stage.progress(last, rows)
        public_entries = np.zeros(self._public_wires, coefficient_dtype(self._curve.fr.words))
        public_entries["signal"] = np.arange(self._public_wires)
        public_entries["constraint"] = rows + public_entries["signal"]
        public_entries["value"][:, 0] = 1
        yield self._encode_entries(public_entries)

    def _entries(self, first: int, last: int) -> Buffer:
        """Return the bytes of the entries of constraints `first` to `last` - 1."""
        matrices = self._system.matrices[:2]
        ranges = [(int(m.row_ptr[first]), int(m.row_ptr[last])) for m in matrices]
        entries = np.zeros(
            sum(end - begin for begin, end in ranges), coefficient_dtype(self._curve.fr.words)
        )
        offset = 0
        for matrix_index, (matrix, (begin, end)) in enumerate(zip(matrices, ranges)):
            matrix_entries = entries[offset : offset + end - begin]
            lengths = np.diff(matrix.row_ptr[first : last + 1])
            matrix_entries["matrix"] = matrix_index
            matrix_entries["constraint"] = np.repeat(
                np.arange(first, last, dtype=np.uint32), lengths
            )
            matrix_entries["signal"] = matrix.column[begin:end]
            matrix_entries["value"] = matrix.value[begin:end]
            offset += end - begin
        order = np.argsort(entries["constraint"] * np.uint64(2) + entries["matrix"], kind="stable")
        return self._encode_entries(entries[order])

    def _encode_entries(self, entries: NDArray[Any]) -> Buffer:
        """Encode entries with canonical values as in zkeys: times the Montgomery radix squared."""
        if len(entries):
            fr = self._curve.fr
            host = resolve_device("cpu")
            entries["value"] = scaled(host, fr, entries["value"], fr.montgomery_radix**2)
        return entries.view(np.uint8)

    def _h(self) -> Iterator[Buffer]:
        """Yield section 9, the points of h, then hash the powers in their place."""
        powers = self._powers
        with self._timeline.stage("h") as stage:
            for first in range(0, self._domain_size, _ROWS_PER_CHUNK):
                yield powers.h[first : first + _ROWS_PER_CHUNK]
            self.hash.powers(self._device, powers.ptau, self._domain_size, stage.progress)

    def _points(
        self, identifier: int, name: str, group_number: int, terms: TermsWithBases, first: int,
        last: int,
    ) -> Iterator[Buffer]:  # fmt: skip
        """Yield the points of wires `first` to `last` - 1, stored or computed, and hash them."""
        group = self._powers.group(group_number)
        size = 8 * group.point_words  # of a point, in bytes
        self.hash.count(last - first)
        with self._timeline.stage(name) as stage:
            for start in range(first, last, WINDOW):
                stop = min(start + WINDOW, last)
                byte_range = (identifier, (start - first) * size, (stop - start) * size)
                stored_bytes = self._store.find(*byte_range)
                if stored_bytes is None:
                    blocks = wire_points(self._device, group, terms, start, stop)
                    points = np.concatenate([*blocks])
                else:
                    points = np.frombuffer(stored_bytes, "<u4").reshape(-1, *group.shape)
                self.hash.points(group_number, points)
                stage.progress(stop - first, last - first)
                yield points
                self._store.keep(*byte_range)
