"""Neptune's Poseidon over BLS12-381's scalar field, as in Filecoin: fifth powers, fixed arities.

Grassi, Khovratovich, Rechberger, Roy, Schofnegger, eprint 2019/458, with neptune's choices
(github.com/argumentcomputer/neptune, "standard" strength): the state is a domain tag and then the
inputs, the hash is element 1 of the last state, and entry (i, j) of the matrix is
1 / (i + j + width). The rounds are in neptune's compressed form: constants are added after the
S-boxes, one in a partial round, and the matrix of a partial round is sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any

from quod.errors import InputError
from quod.field.any_field import field_arithmetic
from quod.field.moduli import BLS12_381_FR
from quod.frozen import frozen
from quod.hash.arguments import element, elements
from quod.hash.grain import grain_numbers
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.ir.value import Value
from quod.validation import shown

FULL_ROUNDS = 8
HALF_ROUNDS = FULL_ROUNDS // 2

PARTIAL_ROUNDS = {2: 55, 4: 56, 8: 57, 11: 57, 16: 59, 24: 59, 36: 60}
"""The number of partial rounds by arity."""

ARBITRARY_TAG = 1 << 40
"""The domain tag of hashes outside of Merkle trees: neptune's `HashType::Custom`, identifier 1."""

_P = BLS12_381_FR.value
_SBOX_CODE = 1

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]


@frozen
class SparseMatrix:
    """The matrix of a partial round.

    column: the first column, `width` entries, by which the first element of the next state is the
        sum of the state.
    row: the first row without its first entry, `width` - 1 entries: multiples of the first element
        that are added to the other elements.
    """

    column: Vector
    row: Vector


@frozen
class NeptuneParameters:
    """The parameters of one arity in compressed form; the width of the state is arity + 1.

    initial_constants: added to the state before the first round.
    first_constants, last_constants: a vector for each full round of the first and of the second
        half, added after the S-boxes. The last round has none, so the second half has one fewer.
    partial_constants: one for each partial round, added after the S-box of the first element.
    matrix: the symmetric matrix of full rounds, except the last one before the partial rounds.
    pre_sparse_matrix: the matrix of that round; entry [i][j] is the factor of element i in the new
        element j.
    sparse_matrices: one for each partial round.
    """

    arity: int
    initial_constants: Vector
    first_constants: tuple[Vector, ...]
    partial_constants: Vector
    last_constants: tuple[Vector, ...]
    matrix: Matrix
    pre_sparse_matrix: Matrix
    sparse_matrices: tuple[SparseMatrix, ...]

    @property
    def width(self) -> int:
        """Elements of the state: the domain tag and the inputs."""
        return self.arity + 1


def merkle_tag(arity: int) -> int:
    """Return the domain tag of the nodes of a Merkle tree, and of columns: 2**arity - 1."""
    return (1 << arity) - 1


@cache
def neptune_parameters(arity: int) -> NeptuneParameters:
    """Return the parameters of an arity; raises InputError for an arity without parameters."""
    if type(arity) is not int or arity not in PARTIAL_ROUNDS:
        *others, last = map(str, PARTIAL_ROUNDS)
        raise InputError(
            f"the arity of Poseidon must be {', '.join(others)} or {last}, not {shown(arity)}"
        )
    width, partial_rounds = arity + 1, PARTIAL_ROUNDS[arity]
    matrix = tuple(
        tuple(pow(row + width + column, -1, _P) for column in range(width)) for row in range(width)
    )
    keys = round_keys(arity)
    inverse = _inverse(matrix)
    # A key that is added before a round equals the inverse matrix's image of it, added before the
    # matrix of the preceding round. In partial rounds only the first element of the image has to
    # stay there, as no S-box separates the other elements from the round before.
    moved, partial_constants = keys[HALF_ROUNDS + partial_rounds], []
    for key in reversed(keys[HALF_ROUNDS : HALF_ROUNDS + partial_rounds]):
        first, *others_moved = _times(moved, inverse)
        partial_constants.append(first)
        moved = tuple((a + b) % _P for a, b in zip(key, (0, *others_moved), strict=True))
    pre_sparse_matrix, sparse_matrices = _factors(matrix, partial_rounds)
    return NeptuneParameters(
        arity,
        initial_constants=keys[0],
        first_constants=tuple(_times(key, inverse) for key in (*keys[1:HALF_ROUNDS], moved)),
        partial_constants=tuple(reversed(partial_constants)),
        last_constants=tuple(_times(key, inverse) for key in keys[1 - HALF_ROUNDS :]),
        matrix=matrix,
        pre_sparse_matrix=pre_sparse_matrix,
        sparse_matrices=sparse_matrices,
    )


def round_keys(arity: int) -> list[Vector]:
    """Return the constants that the uncompressed form adds before each round, a vector a round."""
    width, partial_rounds = arity + 1, PARTIAL_ROUNDS[arity]
    numbers = grain_numbers(_P, width, FULL_ROUNDS, partial_rounds, sbox=_SBOX_CODE)
    constants = (number for number in numbers if number < _P)
    return [tuple(islice(constants, width)) for _ in range(FULL_ROUNDS + partial_rounds)]


def _factors(matrix: Matrix, partial_rounds: int) -> tuple[Matrix, tuple[SparseMatrix, ...]]:
    """Factor the matrices of the partial rounds and of the full round before them.

    A matrix with the corner m, the row v, the column w and the minor N is the product of the block
    matrix of 1 and N, and a sparse matrix with the corner m, the row v, the column N**-1 * w and
    the minor 1. The block matrix commutes with the partial S-box, so it moves to the round before,
    whose minor becomes N**2, then N**3, and so on.
    """
    corner, row = matrix[0][0], matrix[0][1:]
    column = tuple(entries[0] for entries in matrix[1:])
    minor = tuple(entries[1:] for entries in matrix[1:])
    # The minor is symmetric, so vectors may be on either side of it.
    inverse = _inverse(minor)
    last_column, sparse_matrices = column, []
    for _ in range(partial_rounds):
        last_column = _times(last_column, inverse)
        sparse_matrices.append(SparseMatrix((corner, *last_column), row))
        row = _times(row, minor)
    last_minor = _power(minor, partial_rounds + 1)
    lower_rows = [(a, *entries) for a, entries in zip(column, last_minor, strict=True)]
    return ((corner, *row), *lower_rows), tuple(reversed(sparse_matrices))


def _power(matrix: Matrix, exponent: int) -> Matrix:
    """Return a power of a matrix with an exponent of 1 or more."""
    power = matrix
    for bit in bin(exponent)[3:]:
        power = tuple(_times(row, power) for row in power)
        if bit == "1":
            power = tuple(_times(row, matrix) for row in power)
    return power


def _times(vector: Sequence[int], matrix: Matrix) -> Vector:
    """Return the product of a row vector and a matrix."""
    return tuple(
        sum(a * b for a, b in zip(vector, column, strict=True)) % _P
        for column in zip(*matrix, strict=True)
    )


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of an invertible matrix."""
    size = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for pivot in range(size):
        swap = next(i for i in range(pivot, size) if rows[i][pivot])
        rows[pivot], rows[swap] = rows[swap], rows[pivot]
        scale = pow(rows[pivot][pivot], -1, _P)
        pivot_row = rows[pivot] = [entry * scale % _P for entry in rows[pivot]]
        for index, row in enumerate(rows):
            if index != pivot and row[pivot]:
                factor = row[pivot]
                rows[index] = [(a - factor * b) % _P for a, b in zip(row, pivot_row, strict=True)]
    return tuple(tuple(row[size:]) for row in rows)


def neptune_hash(inputs: Sequence[int], *, tag: int | None = None) -> int:
    """Return the hash of 2, 4, 8, 11, 16, 24 or 36 elements.

    tag: the domain tag, by default that of Merkle trees (`merkle_tag`).
    Raises InputError for another number of inputs, and for integers that are not below p.
    """
    values = elements("an input of Poseidon", inputs, BLS12_381_FR)
    parameters = neptune_parameters(len(values))
    tag = merkle_tag(len(values)) if tag is None else element("the tag", tag, BLS12_381_FR)
    return _hash(parameters, tag, values)


def _hash(parameters: NeptuneParameters, tag: int, inputs: Sequence[int]) -> int:
    state = [a + b for a, b in zip((tag, *inputs), parameters.initial_constants, strict=True)]
    for number, constants in enumerate(parameters.first_constants, 1):
        is_last = number == HALF_ROUNDS
        matrix = parameters.pre_sparse_matrix if is_last else parameters.matrix
        state = _full_round(state, constants, matrix)
    for constant, sparse in zip(
        parameters.partial_constants, parameters.sparse_matrices, strict=True
    ):
        first = state[0] = _fifth_power(state[0]) + constant
        total = sum([a * b for a, b in zip(state, sparse.column)]) % _P
        # Only the first element is reduced: the others stay below 121 * p**2 in 60 rounds.
        state = [total, *[a + first * b for a, b in zip(state[1:], sparse.row)]]
    for constants in (*parameters.last_constants, (0,) * parameters.width):
        state = _full_round(state, constants, parameters.matrix)
    return state[1]


def _full_round(state: Sequence[int], constants: Vector, matrix: Matrix) -> list[int]:
    powers = [_fifth_power(a) + b for a, b in zip(state, constants, strict=True)]
    return [sum([a * b for a, b in zip(powers, row)]) % _P for row in zip(*matrix, strict=True)]


def _fifth_power(value: int) -> int:
    square = value * value % _P
    return square * square * value % _P


# --- kernel form


def kernel_constants(arity: int, tag: int | None = None) -> list[int]:
    """Return the constants that `NeptuneHash` reads, for one arity and one domain tag.

    They are the first element of the state (the tag and its constant), the initial constants of the
    inputs, the constants of each full round, then for each partial round its constant and its
    sparse matrix, and the columns of the two dense matrices.
    """
    parameters = neptune_parameters(arity)
    tag = merkle_tag(arity) if tag is None else tag
    constants = [(tag + parameters.initial_constants[0]) % _P, *parameters.initial_constants[1:]]
    for vector in (*parameters.first_constants, *parameters.last_constants):
        constants += vector
    constants += [0] * parameters.width
    for constant, sparse in zip(
        parameters.partial_constants, parameters.sparse_matrices, strict=True
    ):
        constants += (constant, *sparse.column, *sparse.row)
    for matrix in (parameters.matrix, parameters.pre_sparse_matrix):
        constants += [entry for column in zip(*matrix, strict=True) for entry in column]
    return constants


class NeptuneHash:
    """The hash of `arity` elements in one kernel; each instance hashes its inputs.

    constants: points to `kernel_constants` as elements in stored form.
    Full rounds loop over the elements of the state in private memory, as 8 rounds with a product
    for each entry of a matrix would be tens of thousands of instructions.
    """

    def __init__(self, k: Builder, arity: int, constants: Value) -> None:
        self._k, self._width, self._constants = k, arity + 1, constants
        self._partial_rounds = PARTIAL_ROUNDS[arity]
        self.field: Any = field_arithmetic(k, BLS12_381_FR)
        limbs, _, self._rebuild = flatten(self.field.bounded(self.field.one()))
        self._limbs = len(limbs)
        self._memory = k.private(limbs[0].type, 2 * self._width * self._limbs)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Return the hash of elements."""
        k, f, width = self._k, self.field, self._width
        self._store(0, self._constant(0))
        for index, a in enumerate(inputs, 1):
            self._store(index, f.bounded(a + self._constant(index)))
        partial_start = width * (1 + FULL_ROUNDS)
        matrix_start = partial_start + 2 * width * self._partial_rounds
        with k.range(0, FULL_ROUNDS) as full:
            is_last = full.index == HALF_ROUNDS - 1
            matrix = k.select(is_last, full.index * 0 + width * width, full.index * 0)
            self._full_round((full.index + 1) * width, matrix + matrix_start)
            with k.if_(is_last):
                state = tuple(self._load(index) for index in range(width))
                with k.range(0, self._partial_rounds, carry=state) as partial:
                    start = partial_start + 2 * width * partial.index
                    partial.next(self._partial_round(partial.carried, start))
                for index, a in enumerate(partial.results):
                    self._store(index, a)
        return self._load(1)

    def _full_round(self, constants: Value, matrix: Value) -> None:
        """Replace the state; its powers are behind it in private memory."""
        k, f, width = self._k, self.field, self._width
        with k.range(0, width) as elements:
            power = self._fifth_power(self._load(elements.index))
            constant = self._constant(constants + elements.index)
            self._store(elements.index + width, f.bounded(power + constant))
        with k.range(0, width) as columns:
            start = matrix + columns.index * width
            pairs = [(self._load(width + row), self._constant(start + row)) for row in range(width)]
            self._store(columns.index, f.bounded(f.sum_of_products(pairs)))

    def _partial_round(self, state: Sequence[Any], start: Value) -> tuple[Any, ...]:
        f, width = self.field, self._width
        first = f.bounded(self._fifth_power(state[0]) + self._constant(start))
        total = f.sum_of_products([
            (a, self._constant(start + 1 + index)) for index, a in enumerate((first, *state[1:]))
        ])  # fmt: skip
        products = f.multiply_many([
            (first, self._constant(start + width + index)) for index in range(1, width)
        ])  # fmt: skip
        others = (f.bounded(a + b) for a, b in zip(state[1:], products, strict=True))
        return (f.bounded(total), *others)

    def _fifth_power(self, value: Any) -> Any:
        f = self.field
        fourth_power = f.bounded(f.square(f.bounded(f.square(value))))
        return f.bounded(fourth_power * value)

    def _constant(self, index: Any) -> Any:
        return self.field.bounded(self.field.load(self._constants, index))

    def _store(self, index: Any, a: Any) -> None:
        self._k.store(self._memory, index * self._limbs, *flatten(a)[0])

    def _load(self, index: Any) -> Any:
        limbs = self._k.load(self._memory, index * self._limbs, self._limbs)
        return self._rebuild(limbs)
