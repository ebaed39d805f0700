"""Constraint systems (`.r1cs`), as circom writes them.

Section 1: u32 length of the prime, the prime, u32 wires, public outputs, public inputs, private
inputs, u64 labels, u32 constraints. Section 2: for each constraint the linear combinations A, B
and C with A(w) * B(w) = C(w), each a u32 count and that many terms of u32 wire and a little-endian
coefficient below the prime. Section 3: the u64 label of each wire; it may be empty or missing, as
in files of other compilers. Sections 4 and 5: custom gates, which only PLONK has. Wire 0 is the
constant 1; then follow public outputs, public inputs, private inputs and inner wires. circom counts
every private input that the circuit declares, but assigns no wire to those that no constraint uses:
there may be more private inputs than wires. Specification: https://github.com/iden3/r1csfile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import BinaryIO, Final, Literal, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import field_named, first_at_or_above, read_field
from quod.formats.iden3 import Buffer, Iden3File, SectionReader, Words, iden3_writer, little_u32
from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.frozen import frozen
from quod.validation import instance, plain_array, whole_number

KIND = "r1cs"
VERSION = 1
_MAX_COUNT = (1 << 32) - 1
_Count = Literal["wires", "public_outputs", "public_inputs", "private_inputs"]
_COUNTS: Final[tuple[_Count, ...]] = (
    "wires", "public_outputs", "public_inputs", "private_inputs",
)  # fmt: skip


@frozen(eq=False)
class SparseMatrix:
    """A matrix over the scalar field by rows (CSR).

    Row i has the entries ``row_ptr[i]`` to ``row_ptr[i + 1]`` of `column` (nnz,) uint32 and
    `value` (nnz, words) uint32, canonical integers. A column may occur more than once in a row:
    its entries add up. `row_ptr` is (rows + 1,) int64.
    """

    row_ptr: NDArray[np.int64]
    column: NDArray[np.uint32]
    value: Words

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.row_ptr) - 1

    @property
    def nonzeros(self) -> int:
        """The number of stored entries."""
        return len(self.column)


@frozen(eq=False)
class R1cs:
    """An open constraint system: a validated header, and matrices that are read on first access.

    `curve` is Quod's name of the curve whose scalar field the system is over, or circom's name of a
    prime without a pairing curve. `wires` includes the constant 1; `private_inputs` counts those
    that the circuit declares, some of which may have no wire. `size` is the length of the file in
    bytes.
    """

    path: str
    curve: str
    wires: int
    public_outputs: int
    public_inputs: int
    private_inputs: int
    labels: int
    constraints: int
    size: int
    _file: Iden3File

    @property
    def fr(self) -> Modulus:
        """The field of the coefficients."""
        return field_named(self.curve)

    @property
    def public(self) -> int:
        """Public outputs and public inputs together."""
        return self.public_outputs + self.public_inputs

    @classmethod
    def open(cls, path: Path, *, any_prime: bool = False) -> R1cs:
        """Map a constraint system and check its header.

        With `any_prime` the modulus may have any value, even a composite one. Raises `InputError`
        for a damaged container, an unknown prime, custom gates, and counts that contradict each
        other or the length of a section.
        """
        return cls.of(Iden3File.open(path, KIND, VERSION), any_prime=any_prime)

    @classmethod
    def of(cls, file: Iden3File, *, any_prime: bool = False) -> R1cs:
        """Read an open container as `open` reads a file."""
        _refuse_custom_gates(file)
        header = file.section(1, "header")
        curve, _ = read_field(header, any_prime=any_prime)
        start = header.offset
        wires = header.u32("the count of wires")
        outputs = header.u32("the count of public outputs")
        inputs = header.u32("the count of public inputs")
        private = header.u32("the count of private inputs")
        labels = header.u64("the count of labels")
        constraints = header.u32("the count of constraints")
        header.finish()
        # Private inputs that no constraint uses are counted, though circom gives them no wire.
        if 1 + outputs + inputs > wires:
            header.fail(
                f"{wires} wires cannot hold the constant 1, {outputs} outputs and "
                f"{inputs} public inputs; the file is damaged, compile the circuit again",
                start,
            )
        section = file.section(2, "constraints")
        if section.length < 12 * constraints:
            section.fail(
                f"{section.length} bytes cannot hold {constraints} constraints; "
                "the file is damaged, compile the circuit again"
            )
        if 3 in file.sections:
            section = file.section(3, "labels")
            if section.length not in (0, 8 * wires):
                section.fail(
                    f"{section.length} bytes are not the labels of {wires} wires; "
                    "the file is damaged, compile the circuit again"
                )
        return cls(
            path=file.path,
            curve=curve,
            wires=wires,
            public_outputs=outputs,
            public_inputs=inputs,
            private_inputs=private,
            labels=labels,
            constraints=constraints,
            size=file.size,
            _file=file,
        )

    @property
    def file(self) -> Iden3File:
        """The open container."""
        return self._file

    @property
    def a(self) -> SparseMatrix:
        """The matrix of the left factors."""
        return self.matrices[0]

    @property
    def b(self) -> SparseMatrix:
        """The matrix of the right factors."""
        return self.matrices[1]

    @property
    def c(self) -> SparseMatrix:
        """The matrix of the products."""
        return self.matrices[2]

    @property
    def has_labels(self) -> bool:
        """True if the file has labels of wires, which only the names of signals need."""
        return 3 in self._file.sections and self._file.sections[3].length > 0

    @cached_property
    def wire_labels(self) -> NDArray[np.uint64]:
        """The label of each wire, (wires,) uint64: the label of its line in circom's .sym file.

        The shape is (0,) in a file without labels.
        """
        if not self.has_labels:
            return np.empty(0, np.uint64)
        section = self._file.section(3, "labels")
        return np.frombuffer(section.take(8 * self.wires, "the labels"), dtype="<u8")

    @cached_property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """A, B and C, each with `constraints` rows and `wires` columns.

        Raises `InputError` for a combination that runs past the section, bytes after the last, a
        wire that is not below `wires`, and a coefficient that is not below the prime.
        """
        section = self._file.section(2, "constraints")
        start = section.offset
        if section.length % 4:
            section.fail(
                "its length is not a multiple of 4; the file is damaged, compile the circuit again"
            )
        words = section.words(section.length // 4, what="the constraints")
        stride = 1 + self.fr.words
        lengths = self._lengths(words, stride, section, start)
        # Before entry e, which is in combination i, there are i + 1 counts and e entries.
        combination = np.repeat(np.arange(len(lengths)), lengths)
        offsets = np.arange(len(combination)) * stride + combination + 1
        matrix_of_entry = combination % 3
        # All windows of `stride` words of the section; some of them are the entries.
        entries = (
            np.lib.stride_tricks.sliding_window_view(words, stride)
            if len(words) >= stride
            else np.empty((0, stride), dtype=np.uint32)
        )
        matrices = []
        for matrix_index in range(3):
            entry_offsets = offsets[matrix_of_entry == matrix_index]
            matrix_entries = entries[entry_offsets]
            column, value = matrix_entries[:, 0], matrix_entries[:, 1:]
            self._check_entries(column, value, entry_offsets, section, start)
            row_ptr = np.concatenate(([0], np.cumsum(lengths[matrix_index::3]))).astype(np.int64)
            matrices.append(
                SparseMatrix(row_ptr, np.ascontiguousarray(column), np.ascontiguousarray(value))
            )
        return matrices[0], matrices[1], matrices[2]

    def _lengths(
        self, words: Words, stride: int, section: SectionReader, start: int
    ) -> NDArray[np.int64]:
        """Return the number of entries of each of the 3 * constraints combinations."""
        # Indexing a memoryview of native integers is faster than indexing an array.
        stream = np.require(words, np.uint32, ["C", "A"]).data
        lengths: list[int] = []
        position = 0
        try:
            for _ in range(3 * self.constraints):
                length = stream[position]
                lengths.append(length)
                position += 1 + length * stride
        except IndexError:
            pass
        damaged = "the file is damaged, compile the circuit again"
        if position > len(words):
            section.fail(
                f"linear combination {len(lengths) - 1} of {3 * self.constraints} runs past the "
                f"end of the section; {damaged}",
                start + 4 * len(words),
            )
        if len(lengths) < 3 * self.constraints:
            section.fail(
                f"it ends after {len(lengths)} of {3 * self.constraints} linear combinations; "
                f"{damaged}",
                start + 4 * len(words),
            )
        if position < len(words):
            section.fail(
                f"it has {4 * (len(words) - position)} bytes after the last constraint; {damaged}",
                start + 4 * position,
            )
        return np.array(lengths, dtype=np.int64)

    def _check_entries(
        self,
        column: NDArray[np.uint32],
        value: Words,
        entry_offsets: NDArray[np.int64],
        section: SectionReader,
        start: int,
    ) -> None:
        """Raise InputError for a wire that does not exist, or a coefficient that is not below p."""
        out_of_range = column >= self.wires
        if out_of_range.any():
            bad_term = int(out_of_range.argmax())
            section.fail(
                f"a term is for wire {column[bad_term]} of {self.wires}; "
                "the file is damaged, compile the circuit again",
                start + 4 * int(entry_offsets[bad_term]),
            )
        bad_index = first_at_or_above(value, self.fr)
        if bad_index is not None:
            section.fail(
                f"a coefficient is not below the prime of {self.curve}; "
                "the file is damaged, compile the circuit again",
                start + 4 * int(entry_offsets[bad_index]) + 4,
            )


def _refuse_custom_gates(file: Iden3File) -> None:
    for identifier in (4, 5):
        if identifier in file.sections:
            section = file.section(identifier, "custom gates")
            start = section.offset
            if section.length != 4 or section.u32("the count of custom gates"):
                raise InputError(
                    "the circuit uses custom gates, which Groth16 does not support; "
                    "compile it from a source without `pragma custom_templates`",
                    path=file.path,
                    section=f"{identifier} (custom gates)",
                    offset=start,
                )


class System(TypedDict):
    """The arguments of `write_r1cs`."""

    curve: str
    wires: int
    public_outputs: int
    public_inputs: int
    private_inputs: int
    a: SparseMatrix
    b: SparseMatrix
    c: SparseMatrix
    wire_labels: NotRequired[NDArray[np.uint64] | None]
    labels: NotRequired[int | None]


def write_r1cs(path: Path, **system: Unpack[System]) -> None:
    """Write a constraint system atomically.

    The matrices have one row per constraint and canonical values. By default the label of a wire is
    its index, and `labels`, the count of all labels, is one more than the largest label.
    `private_inputs` may count inputs without a wire. Raises `InputError` for arrays that do not fit
    together, `OutputError` if writing fails.
    """
    write_atomically(path, r1cs_writer(**system))


def r1cs_writer(**system: Unpack[System]) -> Callable[[BinaryIO], None]:
    """Return a function that writes a constraint system to an open file; see `write_r1cs`."""
    fr = field_named(system["curve"])
    a, b, c = system["a"], system["b"], system["c"]
    counts = {name: system[name] for name in _COUNTS}
    wires, public_outputs, public_inputs, private_inputs = (
        whole_number(name, count, 0, _MAX_COUNT) for name, count in counts.items()
    )
    if 1 + public_outputs + public_inputs > wires:
        raise InputError(f"{wires} wires cannot hold the constant 1 and the public ones")
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        instance(name, matrix, SparseMatrix, "make one of arrays")
        _check_matrix(name, matrix, a.rows, wires, fr)
    wire_labels, labels = system.get("wire_labels"), system.get("labels")
    if wire_labels is None:
        wire_labels = np.arange(wires, dtype=np.uint64)
    wire_labels = plain_array("wire_labels", wire_labels)
    if wire_labels.shape != (wires,) or wire_labels.dtype != np.uint64:
        raise InputError(f"wire_labels must be uint64 of shape ({wires},)")
    if labels is None:
        labels = int(wire_labels.max()) + 1
    labels = whole_number("labels", labels, 0, (1 << 64) - 1)
    header: list[Buffer] = [
        little_u32(fr.bytes),
        fr.value.to_bytes(fr.bytes, "little"),
        *map(little_u32, (wires, public_outputs, public_inputs, private_inputs)),
        labels.to_bytes(8, "little"),
        little_u32(a.rows),
    ]
    sections: list[tuple[int, list[Buffer]]] = [
        # circom's order.
        (2, [_constraint_stream((a, b, c), fr)]),
        (1, header),
        (3, [wire_labels]),
    ]
    return iden3_writer(KIND, VERSION, sections)


def _check_matrix(name: str, matrix: SparseMatrix, rows: int, wires: int, fr: Modulus) -> None:
    """Raise InputError unless a matrix has this shape and valid arrays."""
    for part in ("row_ptr", "column", "value"):
        if plain_array(f"{name}.{part}", getattr(matrix, part)).ndim != 1 + (part == "value"):
            raise InputError(f"{name}.{part} must be a {'matrix' if part == 'value' else 'vector'}")
    nonzeros = matrix.nonzeros
    if matrix.rows != rows:
        raise InputError(f"{name} has {matrix.rows} rows and a has {rows}")
    if (
        matrix.row_ptr[0] != 0
        or matrix.row_ptr[-1] != nonzeros
        or np.diff(matrix.row_ptr).min(initial=0) < 0
    ):
        raise InputError(f"{name}.row_ptr does not rise from 0 to {nonzeros}")
    if matrix.column.dtype != np.uint32 or (nonzeros and matrix.column.max() >= wires):
        raise InputError(f"{name}.column must be uint32 below {wires}")
    if matrix.value.dtype != np.uint32 or matrix.value.shape != (nonzeros, fr.words):
        raise InputError(f"{name}.value must be uint32 of shape ({nonzeros}, {fr.words})")
    if first_at_or_above(matrix.value, fr) is not None:
        raise InputError(f"{name}.value has an element that is not below the prime")


def _constraint_stream(matrices: tuple[SparseMatrix, ...], fr: Modulus) -> Words:
    """Return section 2 as words: the rows of A, B and C in turn, each a count and its entries."""
    stride = 1 + fr.words
    lengths = np.stack([np.diff(matrix.row_ptr) for matrix in matrices], axis=1).reshape(-1)
    ends = np.cumsum(1 + lengths * stride)
    stream = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint32)
    starts = ends - (1 + lengths * stride)
    stream[starts] = lengths
    for index, matrix in enumerate(matrices):
        row_lengths = lengths[index::3]
        index_in_row = np.arange(matrix.nonzeros) - np.repeat(matrix.row_ptr[:-1], row_lengths)
        entry_offsets = np.repeat(starts[index::3], row_lengths) + 1 + index_in_row * stride
        stream[entry_offsets] = matrix.column
        for word in range(fr.words):
            stream[entry_offsets + 1 + word] = matrix.value[:, word]
    return stream
