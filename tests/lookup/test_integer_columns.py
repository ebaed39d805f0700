"""Lookups of columns of integers and of affine forms, against a model on plain integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod import lookup
from quod.commitment import Ligero, Raw
from quod.device.discovery import open_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec, Integers, from_integers
from quod.lookup import (
    Affine,
    AffineForm,
    Range,
    Statement,
    Table,
    counts,
    multiplicities,
    prove_committed,
    verify_committed,
)
from quod.lookup.count_kernels import CountForm
from quod.lookup.leaf_form import ColumnTable
from quod.sumcheck.plan import SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.shape import Shape
from tests.reference import lookup as reference
from tests.support.bound_transcripts import behind_commitments, bound
from tests.support.thorough import one_and_others

prove, verify = behind_commitments(lookup.prove), behind_commitments(lookup.verify)

FIELDS: dict[str, FieldSpec] = {
    "goldilocks.2": EXTENSIONS["goldilocks.2"], "m31.4": EXTENSIONS["m31.4"],
    "koala_bear.4": EXTENSIONS["koala_bear.4"], "bn254.fr": NAMED["bn254.fr"],
}  # fmt: skip
TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "i8")


def extremes(dtype: str, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Integers of a type, its least and greatest among them."""
    limits, generator = np.iinfo(dtype), random.Random(seed)
    special = [limits.min, limits.max, 0, 1, limits.max // 3]
    return np.array([generator.choice(special) for _ in range(count)], dtype)


def table_of(field: FieldSpec, rows: set[tuple[int, ...]], size: int) -> list[list[int]]:
    """A table of `size` entries, which has the rows, sorted and padded with the last one."""
    p = field.modulus.value
    entries = sorted({tuple(number % p for number in row) for row in rows})
    entries += [entries[-1]] * (size - len(entries))
    return [list(part) for part in zip(*entries, strict=True)]


def check_proof(
    device: AnyDevice, field: FieldSpec, columns: list[Any], plain: list[list[list[int]]],
    table: list[list[int]],
) -> Any:  # fmt: skip
    """Check counts, the proof without forms, and the reduced claims; return the proof."""
    p = field.modulus.value
    plain = [[[number % p for number in part] for part in column] for column in plain]
    entries = [from_integers(field.modulus, part) for part in table]
    counted = multiplicities(device, field, columns, entries)
    expected = reference.counted(plain, table)
    assert np.array_equal(counted, from_integers(field.modulus, expected))
    proof = prove(device, field, columns, entries, counted)
    assert verify(proof.statement, proof.data) == proof.reduced
    if not proof.statement.forms:
        assert proof.data == reference.prove(proof.statement, plain, table, expected, bound())
    return proof


@pytest.mark.crossed("device", "name", "dtype")
@pytest.mark.parametrize("name", one_and_others(list(FIELDS), always=["goldilocks.2"]))
@pytest.mark.parametrize("dtype", one_and_others(TYPES, always=["i2", "i8"]))
def test_integers_of_all_types(device: AnyDevice, name: str, dtype: str) -> None:
    field = FIELDS[name]
    if np.dtype(dtype).itemsize > 4 * field.modulus.words:
        return
    arrays = [extremes(dtype, 16, seed) for seed in range(2)]
    table = table_of(field, {(n,) for a in arrays for n in a.tolist()}, 8)
    check_proof(device, field, arrays, [[a.tolist()] for a in arrays], table)


@pytest.mark.crossed("device", "columns")
@pytest.mark.parametrize(
    ("columns", "log2_size"),
    one_and_others([(1, 1), (1, 2), (3, 5), (4, 6)], always=[(3, 5), (4, 6)]),
)
def test_tuples_of_integers(device: AnyDevice, columns: int, log2_size: int) -> None:
    """Tuples of different types, with as many columns as a power of two and not."""
    field, rows = FIELDS["goldilocks.2"], 1 << log2_size
    parts = [
        [extremes("i2", rows, seed), (extremes("u1", rows, seed) % 3).astype(np.uint8)]
        for seed in range(columns)
    ]
    plain = [[part.tolist() for part in column] for column in parts]
    table = table_of(field, {row for c in plain for row in zip(*c, strict=True)}, 16)
    check_proof(device, field, parts, plain, table)


@pytest.mark.crossed("device", "alike")
@pytest.mark.parametrize("alike", one_and_others([True, False]))
def test_affine_forms(device: AnyDevice, alike: bool) -> None:
    """Remainders of a rounding shift: r = acc + 2**(s - 1) - q * 2**s, which no array has."""
    field, generator = FIELDS["goldilocks.2"], np.random.default_rng(3)
    columns, forms, sums, quotients = [], [], [], []
    for shift in (3, 3) if alike else (2, 3):
        acc = generator.integers(-(1 << 40), 1 << 40, 64)
        q = (acc + (1 << shift - 1)) >> shift
        columns.append(Affine(1 << shift - 1, [(1, acc), (-(1 << shift), q)]))
        forms.append((AffineForm(1 << shift - 1, (1, -(1 << shift))),))
        sums.append(acc)
        quotients.append(q)
    remainders = [
        (acc + form.constant + form.coefficients[1] * q).tolist()
        for acc, q, (form,) in zip(sums, quotients, forms, strict=True)
    ]
    proof = check_proof(
        device, field, columns, [[r] for r in remainders], [list(range(8))]
    )  # fmt: skip
    assert proof.statement == Statement(field, 2, 6, Table(3), tuple(forms))
    pairs = list(zip(sums, quotients, strict=True))
    check_claims(field, proof.reduced, pairs)
    for place in range(0, len(proof.data), 9):
        changed = bytearray(proof.data)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            check_claims(field, verify(proof.statement, bytes(changed)), pairs)
    plain = Statement(field, 2, 6, Table(3))
    for other in (plain, Statement(field, 2, 6, Table(3), tuple(reversed(forms)) if not alike else
                                   ((AffineForm(3, (1, -8)),), forms[1]))):  # fmt: skip
        with pytest.raises((VerificationError, InputError)):
            verify(other, proof.data)


def check_claims(field: FieldSpec, reduced: lookup.Reduced, columns: list[Any]) -> None:
    """VerificationError unless the claims about the arrays of forms and the table hold."""
    p = field.modulus.value
    for values, arrays in zip(reduced.columns, columns, strict=True):
        for value, array in zip(values, arrays, strict=True):
            numbers = [number % p for number in array.tolist()]
            if reference.at(field, numbers, reduced.point) != value:
                raise VerificationError("not the arrays' values")
    table = [*range(8)]
    if reference.at(field, table, reduced.table_point) != reduced.entry[0]:
        raise VerificationError("not the table's value")


def test_affine_tuples_and_ranges(device: AnyDevice) -> None:
    """A pair of a column and a form that has that column too; and a range of a form."""
    field = FIELDS["goldilocks.2"]
    x = np.arange(64, dtype=np.int8) - 32
    pairs = [[x, Affine(7, [(3, x)])]]
    plain = [[x.tolist(), (3 * x.astype(int) + 7).tolist()]]
    table = table_of(field, set(zip(*plain[0], strict=True)), 64)
    check_proof(device, field, pairs, plain, table)
    shifted = [Affine(32, [(1, x)])]
    counted = multiplicities(device, field, shifted, Range(6))
    assert np.array_equal(counted, from_integers(field.modulus, [1] * 64))
    proof = prove(device, field, shifted, Range(6), counted)
    assert verify(proof.statement, proof.data) == proof.reduced


def test_columns_in_device_memory(device: AnyDevice) -> None:
    """Slices of one allocation stay in place; others are copied. The proof is the same."""
    field = FIELDS["goldilocks.2"]
    arrays = [extremes("i2", 64, seed) % 16 for seed in range(2)]
    counted = multiplicities(device, field, arrays, Range(4))
    expected = prove(device, field, arrays, Range(4), counted).data
    memory = device.upload(np.concatenate(arrays))
    slices = [Integers(memory.slice(128 * n, 128 * (n + 1)), np.dtype(np.int16)) for n in range(2)]
    apart: list[Any] = [device.upload(array) for array in arrays]
    for columns in (slices, apart):
        assert np.array_equal(multiplicities(device, field, columns, Range(4)), counted)
        assert prove(device, field, columns, Range(4), counted).data == expected


@pytest.mark.parametrize("columns", one_and_others([1, 3]))
def test_gpu_code_agrees_with_the_model(gpu_device: AnyDevice, columns: int) -> None:
    """Pairs of a form of two types and a column; ranges, counted in shared memory."""
    field, rows = FIELDS["goldilocks.2"], 32
    parts = [
        (extremes("i2", rows, seed), (extremes("u1", rows, seed) % 3).astype(np.uint8))
        for seed in range(columns)
    ]
    pairs = [[Affine(-1, [(2, x), (-3, y)]), y] for x, y in parts]
    plain = [[(2 * x.astype(int) - 3 * y - 1).tolist(), y.tolist()] for x, y in parts]
    table = table_of(field, {row for c in plain for row in zip(*c, strict=True)}, 16)
    check_proof(gpu_device, field, pairs, plain, table)
    small = [y for _, y in parts]
    check_range(gpu_device, field, small, 2)


@pytest.mark.parametrize("parts", [1, 4])
def test_counters_of_part_of_a_table(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in parts, and a cache of counters that entries have to share."""
    field, device = FIELDS["goldilocks.2"], open_device("cpu")
    form = CountForm(4) if parts > 1 else CountForm(0, cache_size=4)
    grid = counts.Grid(8, 2 * parts, parts, form)
    monkeypatch.setattr(counts.Grid, "of", lambda *_, **__: grid)
    x = np.random.default_rng(parts).integers(0, 16, 512).astype(np.uint8)
    expected = from_integers(field.modulus, np.bincount(x, minlength=16).tolist())
    assert np.array_equal(multiplicities(device, field, [x], Range(4)), expected)
    table = [from_integers(field.modulus, [f * i for i in range(16)]) for f in (1, 3)]
    pairs = [[x, Affine(0, [(3, x)])]]
    assert np.array_equal(multiplicities(device, field, pairs, table), expected)
    with pytest.raises(InputError, match="row 7 of column 0 is 99, not in the table"):
        multiplicities(device, field, [np.where(np.arange(512) < 7, x, 99)], Range(4))


def check_range(device: AnyDevice, field: FieldSpec, columns: list[Any], bits: int) -> None:
    """Check counts and proof of a range."""
    plain = [[column.tolist()] for column in columns]
    table = [list(range(1 << bits))]
    counted = multiplicities(device, field, columns, Range(bits))
    expected = reference.counted(plain, table)
    assert np.array_equal(counted, from_integers(field.modulus, expected))
    proof = prove(device, field, columns, Range(bits), counted)
    assert proof.data == reference.prove(proof.statement, plain, table, expected, bound())


def test_rows_outside_the_table_are_located(device: AnyDevice) -> None:
    field = FIELDS["goldilocks.2"]
    good, bad = np.zeros(64, np.int16), np.zeros(64, np.int16)
    bad[[9, 63]] = -5, 99
    on_device = Integers(device.upload(bad), np.dtype(np.int16))
    for columns in ([good, bad], [device.upload(good), on_device]):
        with pytest.raises(InputError, match="row 9 of column 1 is -5, not in the table"):
            multiplicities(device, field, columns, Range(4))
    form = [Affine(1, [(2, bad)])]
    with pytest.raises(InputError, match="row 9 of column 0 is -9, not in the table"):
        multiplicities(device, field, form, Range(4))
    entries = [from_integers(field.modulus, part) for part in ([0, 1], [0, 2])]
    with pytest.raises(InputError, match=r"row 9 of column 0 is \(0, -5\), not in the table"):
        multiplicities(device, field, [[good, bad]], entries)


def test_committed_integers() -> None:
    field = FIELDS["goldilocks.2"]
    columns = [np.arange(64, dtype=np.int16), 63 - np.arange(64, dtype=np.int16)]
    elements = [from_integers(field.modulus, c.tolist()) for c in columns]
    statement = Statement(field, 2, 6, Range(6))
    for scheme in (Raw(), Ligero()):
        proof = prove_committed("cpu", field, columns, Range(6), scheme=scheme, allow_bits=80)
        assert proof == prove_committed(
            "cpu", field, elements, Range(6), scheme=scheme, allow_bits=80
        )
        verify_committed(statement, proof, scheme=scheme, allow_bits=80)


def test_wrong_columns_are_refused() -> None:
    field, good = FIELDS["m31.4"], np.zeros(4, np.uint8)
    memory = Buffer.zeros(64)
    wrong: Any
    for wrong in (
        [np.zeros(4, np.int64)], [np.zeros(4, np.float32)], [np.zeros((2, 2), np.uint8)],
        [good, np.zeros(4, np.int8)], [good, Affine(0, [(1, good), (1, good)])],
        [Affine(0, [])], [Affine(0, [(1,)])], [Affine(1.5, [(1, good)])], [np.zeros(3, np.uint8)],  # type: ignore[arg-type]
        [Affine(0, [(1, from_integers(field.modulus, [1, 2]))])], [Affine(1 << 64, [(1, good)])],
    ):  # fmt: skip
        with pytest.raises(InputError):
            multiplicities("cpu", field, wrong, Range(2))
    for dtype in ("f4", "bool", "nonsense"):
        with pytest.raises(InputError):
            Integers(memory, dtype)  # type: ignore[arg-type]
    tiny = [np.zeros(2, np.uint8)]
    with pytest.raises(InputError, match="does not fill words of 32 bits"):
        prove_committed("cpu", field, tiny, Range(2), allow_bits=0)
    with pytest.raises(InputError, match="no whole number"):
        Integers(memory.slice(0, 63), np.dtype("i2"))
    with pytest.raises(InputError, match="affine forms must be 1 for each of 2 columns"):
        Statement(field, 2, 2, Range(2), ((AffineForm(0, (1,)),),))


def test_sources_that_do_not_fit_are_refused() -> None:
    field, source = FIELDS["goldilocks.2"], ColumnTable("u16")
    for polynomial, in_base in ((SumOfProducts.product(2), 2), (SumOfProducts.product(1), 2)):
        with pytest.raises(InputError):
            Shape(field, polynomial, in_base=in_base, has_point=False, source=source)
    shape = Shape(field, SumOfProducts.product(1), in_base=1, has_point=False, source=source)
    with pytest.raises(InputError, match="a batch of 1"):
        SumcheckPlan("cpu", shape, 3, batch=2)


def test_memory_is_stated_before_work() -> None:
    field, column = FIELDS["goldilocks.2"], np.zeros(1 << 16, np.uint8)
    counted = from_integers(field.modulus, [1 << 16, *[0] * 3])
    with (
        open_device("cpu", memory_budget=1 << 20) as device,
        pytest.raises(DeviceError, match="sums of fractions would take"),
    ):
        prove(device, field, [column], Range(2), counted)
