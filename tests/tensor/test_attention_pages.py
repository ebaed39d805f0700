"""Attention of keys in pages, and appending to them: bits of `attention_decode`, and entries of the
table that are no pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.kernel.ir.types import Type
from quod.tensor import append_to_pages, attention_decode, paged_attention
from tests.tensor.attention_model import NONE, Case, bound, exact, made
from tests.tensor.numbers import TYPES, Array, Guarded, amid_poison, numbers

SPARE = 3
"""Pages that no sequence has."""


class Paged(NamedTuple):
    """Keys and values of a case in pages, in no order; all else is NaN, and no page."""

    keys: Array
    values: Array
    table: Array


def paged(case: Case, page_size: int, dtype: Any = np.int32) -> Paged:
    """The pages of a case that has lengths."""
    assert case.lengths is not None
    sequences, heads, most, size = case.k.shape
    counts = np.minimum(case.lengths.view(np.uint32), most).astype(int)
    columns = -(-most // page_size)
    used = -(-counts // page_size)
    order = np.random.default_rng(9).permutation(int(used.sum()) + SPARE)
    table = np.full((sequences, columns), -1, np.int32)
    shape = (len(order), heads, page_size, size)
    keys, values = (np.zeros(shape, x.dtype) for x in case[1:3])
    found = Paged(keys, values, table.view(dtype))
    for pool, x in zip(found[:2], case[1:3], strict=True):
        pool.view(np.uint8)[:] = 0xFF
        numbers_ = iter(order)
        for sequence in range(sequences):
            for column in range(used[sequence]):
                page = table[sequence, column] = next(numbers_)
                lines = x[sequence, :, column * page_size : counts[sequence]][:, :page_size]
                pool[page, :, : lines.shape[1]] = lines
    return found


def run(
    device: AnyDevice, case: Case, given: Paged, parts: int | None = None
) -> tuple[Array, Array]:
    """The result and the logarithms of sums, in poisoned memory whose surroundings must stay; the
    table is in memory of the device, where the host does not look."""
    assert case.lengths is not None
    out = Guarded(device, np.zeros_like(case.q))
    logs = Guarded(device, np.zeros(case.q.shape[:-1], np.float32))
    memory = [amid_poison(device, x) for x in (case.q, *given, case.lengths)]
    found = paged_attention(
        device, *memory, scale=case.scale, causal=case.causal, parts=parts,
        log_sums=logs.memory, out=out.memory,
    )  # fmt: skip
    assert found is out.memory
    return out.array(), logs.array()


def check(device: AnyDevice, case: Case, element: Type, page_size: int, parts: int | None) -> None:
    """Against float64; and where parts are known, the bits of keys that are in no pages."""
    found, logs = run(device, case, paged(case, page_size), parts)
    assert case.lengths is not None
    lengths = np.minimum(case.lengths.view(np.uint32), case.k.shape[-2]).astype(np.int32)
    known = case._replace(lengths=lengths)
    wanted, wanted_logs = exact(known, element)
    assert (np.abs(numbers(found, element) - wanted) <= bound(known, element)).all()
    assert np.allclose(logs, wanted_logs, rtol=2e-6, atol=2e-5)
    if parts is None:
        return
    sums = np.zeros_like(logs)
    plain = attention_decode(
        device, *case[:3], scale=case.scale, causal=case.causal, parts=parts, lengths=lengths,
        log_sums=sums,
    )  # fmt: skip
    assert plain.tobytes() == found.tobytes()
    assert sums.tobytes() == logs.tobytes()


CASES = [(1, 64, 16, (4, 2), 16, 2), (3, 70, 40, (3, 1), 5, 1), (2, 33, 33, (2, 2), 1, 3)]
"""Queries, keys, size, heads; keys of a page, parts."""


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_every_edge(device: AnyDevice, element: Type) -> None:
    """Full pages and others, sequences without keys, and more keys than the table has room for."""
    some = CASES[:1] if device.kind == "webgpu" else CASES if element is f32 else CASES[1:2]
    for queries, keys, size, heads, page_size, parts in some:
        room = -(-keys // page_size) * page_size
        lengths = [keys - 1, 0, -1 if room == keys else keys, 1]
        case = made(element, queries, keys, size, heads, 4, causal=True, lengths=lengths)
        check(device, case, element, page_size, parts)


@pytest.mark.crossed("element", "name")
@pytest.mark.parametrize("element", [f32, bf16], ids=str)
@pytest.mark.parametrize("name", ["emulated:ptx", "emulated"])
def test_every_edge_of_emulated_gpus(name: str, element: Type) -> None:
    with open_device(name) as device:
        for size, page_size, parts in ((64, 16, 2), (40, 7, None)):
            case = made(element, 2, 90, size, (4, 2), 2, causal=True, lengths=[90, 41])
            check(device, case, element, page_size, parts)


def test_accesses_of_the_processor_are_in_bounds(checked_cpu: AnyDevice) -> None:
    case = made(f32, 2, 40, 9, (2, 1), causal=True, lengths=[39, 8])
    check(checked_cpu, case, f32, 8, 2)


def _without_a_page(device: AnyDevice, element: Type, wrong: int) -> None:
    """Keys 8 to 15 of both sequences are of no page, wherever its number would lead."""
    case = made(element, 1, 40, 16, (2, 1), lengths=[40, 21])
    given = paged(case, 8)
    given.table[:, 1] = wrong
    for parts in (1, 2):
        found, logs = run(device, case, given, parts)
        for sequence, length in enumerate((40, 21)):
            keys = [key for key in range(length) if not 8 <= key < 16]
            part = slice(sequence, sequence + 1)
            own = Case(case.q[part], case.k[part, :, keys], case.v[part, :, keys], case.scale)
            wanted, wanted_logs = exact(own, element)
            error = np.abs(numbers(found[sequence : sequence + 1], element) - wanted)
            assert (error <= bound(own, element)).all()
            assert np.allclose(logs[sequence], wanted_logs[0], atol=2e-5)
    given.table[:] = wrong
    found, logs = run(device, case, given, 2)
    assert (found == 0).all()
    assert (logs == NONE).all()


@pytest.mark.crossed("device", "wrong")
@pytest.mark.parametrize("wrong", [-1, -(1 << 31), 1 << 20])
def test_keys_of_no_page_are_not_seen(device: AnyDevice, wrong: int) -> None:
    _without_a_page(device, f32, wrong)


@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_keys_of_no_page_are_not_seen_by_emulated_gpus(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        pages = -(-40 // 8) + -(-21 // 8) + SPARE
        _without_a_page(device, element, pages)


def test_the_last_page_is_one() -> None:
    with open_device("cpu") as device:
        case = made(f32, 1, 8, 8, (1, 1), 1, lengths=[8])
        given = paged(case, 8)
        last = len(given.keys) - 1
        for pool in given[:2]:
            pool[last] = pool[given.table[0, 0]]
        given.table[0, 0] = last
        found, _ = run(device, case, given)
        assert np.allclose(found, exact(case, f32)[0], atol=1e-6)


def test_unsigned_tables_and_what_is_made() -> None:
    case = made(f32, 1, 20, 8, (2, 1), lengths=[20, 7])
    given = paged(case, 4, np.uint32)
    found = paged_attention("cpu", case.q, *given, case.lengths, scale=case.scale)
    assert np.allclose(found, exact(case, f32)[0], atol=1e-6)
    none = given.table[:, :0]
    assert (paged_attention("cpu", case.q, *given[:2], none, case.lengths) == 0).all()
    q, lengths = case.q[:0], np.zeros(0, np.int32)
    assert paged_attention("cpu", q, *given[:2], given.table[:0], lengths).shape == q.shape


# --- appending


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize(
    ("element", "size"), [(f32, 4), (f16, 8), (bf16, 5), (f32, 1)], ids=lambda x: str(x)
)
def test_appended_keys_are_at_their_places(device: AnyDevice, element: Type, size: int) -> None:
    """Tokens within a page and over its end, fewer than a row has, none, and those of no page."""
    lengths, tokens, page_size = [9, 2, 0, 6, 8], 3, 4
    table = np.array([[6, 1, 3], [5, 99, -1], [-1, 7, 2], [0, 1 << 30, 0], [4, 8, -7]], np.int32)
    new = made(element, 1, tokens, size, (2, 2), len(lengths))
    pool = np.zeros((9, 2, page_size, size), new.q.dtype)
    pool.view(np.uint8)[:] = 0xA5
    keys, values = Guarded(device, pool, holds=True), Guarded(device, pool, holds=True)
    given = [amid_poison(device, x) for x in (new.k, new.v)]
    rest = [amid_poison(device, x) for x in (table, np.array(lengths, np.int32))]
    append_to_pages(device, *[*given, keys.memory, values.memory, *rest])
    for found, x in ((keys.array(), new.k), (values.array(), new.v)):
        wanted = pool.copy()
        for sequence, length in enumerate(lengths):
            for token in range(tokens):
                place = length - tokens + token
                page = table[sequence, place // page_size] if place >= 0 else -1
                if 0 <= page < len(pool):
                    wanted[page, :, place % page_size] = x[sequence, :, token]
        assert found.tobytes() == wanted.tobytes()
        assert found.tobytes() != pool.tobytes()


def test_lengths_beyond_the_table_store_nothing(device: AnyDevice) -> None:
    new = np.ones((3, 1, 2, 4), np.float32)
    pool = np.zeros((3, 1, 4, 4), np.float32)
    pools = [Guarded(device, pool, holds=True) for _ in range(2)]
    table, lengths = np.array([[0], [1], [2]], np.int32), np.array([5, -1, 1 << 30], np.int32)
    rest = [device.upload(x) for x in (table, lengths)]
    append_to_pages(device, *[new, new, *(each.memory for each in pools), *rest])
    assert not any(each.array().any() for each in pools)


def test_a_sequence_grows_token_by_token(device: AnyDevice) -> None:
    """What is appended is seen by the same lengths, and all before it."""
    case = made(f32, 1, 11, 8, (2, 1))
    pools = [device.upload(np.full((8, 1, 4, 8), np.nan, np.float32)) for _ in range(2)]
    table = device.upload(np.array([[3, 0, 6], [1, 7, 2]], np.int32))
    for count in range(1, 12):
        lengths = np.full(2, count, np.int32)
        new = [np.ascontiguousarray(x[:, :, count - 1 : count]) for x in case[1:3]]
        append_to_pages(device, *[*new, *pools, table, lengths])
    found = paged_attention(device, case.q, *pools, table, lengths, scale=case.scale)
    assert np.allclose(found, exact(case, f32)[0], atol=1e-6)


def test_nothing_to_append() -> None:
    pools = [np.zeros((2, 1, 4, 8), np.float32) for _ in range(2)]
    table, lengths = np.array([[-1]], np.int32), np.array([3], np.int32)
    none = np.ones((1, 1, 0, 8), np.float32)
    append_to_pages("cpu", none, none, pools[0], pools[1], table, lengths)
    empty = np.ones((0, 1, 2, 8), np.float32)
    append_to_pages("cpu", empty, empty, pools[0], pools[1], table[:0], lengths[:0])
    one = np.ones((1, 1, 1, 8), np.float32)
    append_to_pages("cpu", one, one, pools[0], pools[1], table[:, :0], np.zeros(1, np.int32))
    assert not any(each.any() for each in pools)


# --- bad input

Q = np.ones((2, 4, 1, 8), np.float32)
POOL, OTHER = np.ones((5, 2, 4, 8), np.float32), np.ones((5, 2, 4, 8), np.float32)
TABLE, LENGTHS = np.array([[0, 1], [2, 3]], np.int32), np.array([8, 5], np.int32)
NEW = np.ones((2, 2, 2, 8), np.float32)


def call(**other: Any) -> Any:
    given = {"q": Q, "key_pages": POOL, "value_pages": OTHER, "table": TABLE, "lengths": LENGTHS}
    return paged_attention("cpu", **(given | other))


def append(**other: Any) -> Any:
    given = {
        "k": NEW, "v": NEW, "key_pages": POOL, "value_pages": OTHER, "table": TABLE,
        "lengths": LENGTHS,
    }  # fmt: skip
    return append_to_pages("cpu", **(given | other))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: call(q=Q[0]), "q has the axes sequences, heads, queries, size"),
        (lambda: call(q=Q[:, :3].copy()), "key_pages has 2 heads, which do not divide the 3 of q"),
        (lambda: call(key_pages=POOL[0]), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL.astype(np.float16)), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL[..., :4].copy()), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL[:0]), "there is a key at least"),
        (lambda: call(key_pages=POOL[:, :, :0].copy()), "there is a key at least"),
        (lambda: call(value_pages=POOL[:4]), "value_pages must be f32 of shape"),
        (lambda: call(table=TABLE[0]), "table must have the shape"),
        (lambda: call(table=TABLE[:1]), "table must have the shape"),
        (lambda: call(table=TABLE.astype(np.int64)), "table is of int64"),
        (lambda: call(table=np.zeros((2, 4), np.int32)[:, :2]), "table has strides"),
        (lambda: call(lengths=LENGTHS[:1]), "lengths must have the shape"),
        (lambda: call(lengths=LENGTHS.astype(np.float32)), "lengths is of float32"),
        (lambda: call(table=TABLE + 2), r"table\[1, 1\] is 5, and the 5 pages .* from 0; 1 such"),
        (lambda: call(table=-TABLE), r"table\[0, 1\] is -1, .*; 3 such"),
        (lambda: call(scale=0), "scale must be at least"),
        (lambda: call(parts=0), "parts must be"),
        (lambda: call(log_sums=Q), "log_sums must be f32 of shape"),
        (lambda: call(out=POOL), "out must be f32 of shape"),
        (lambda: call(out=Q), "out is in the memory of q"),
        (lambda: call(out=POOL.reshape(-1)[:64].reshape(Q.shape)), "in the memory of key_pages"),
        (lambda: call(q=np.ones((2, 2, 1, 257), np.float32),
                      key_pages=np.ones((1, 1, 1, 257), np.float32)), "heads of 257"),
        (lambda: append(k=NEW[0]), "k has the axes sequences, kv_heads, tokens and size"),
        (lambda: append(v=NEW[:1]), "v must be f32 of shape"),
        (lambda: append(k=NEW[:, :1].copy(), v=NEW[:, :1].copy()), "key_pages has 2 heads, and k"),
        (lambda: append(value_pages=POOL), "key_pages is in the memory of value_pages"),
        (lambda: append(k=POOL.reshape(-1)[:64].reshape(NEW.shape)), "is in the memory of k"),
        (lambda: append(lengths=np.array([8, 9], np.int32)), r"lengths\[1\] is 9, and a row"),
        (lambda: append(lengths=np.array([8, -1], np.int32)), r"lengths\[1\] is -1, and a row"),
        (lambda: append(table=TABLE + 2), r"table\[1, 1\] is 5, and the 5 pages"),
    ],
)  # fmt: skip
def test_bad_input(bad: Callable[[], Any], message: str) -> None:
    before = POOL.copy()
    with pytest.raises(InputError, match=message):
        bad()
    assert (before == POOL).all()


def test_a_place_of_two_tokens_is_refused() -> None:
    table, lengths = np.array([[0, 1], [2, 1]], np.int32), np.array([6, 6], np.int32)
    with pytest.raises(InputError, match="table gives line 0 of page 1 to two new keys"):
        append(table=table, lengths=lengths)
    lengths[1] = 8
    pools = [np.zeros_like(POOL) for _ in range(2)]
    append(table=table, lengths=lengths, key_pages=pools[0], value_pages=pools[1])
    assert (pools[0][1] == 1).all()


def test_pages_that_sequences_share_are_read() -> None:
    """As where they begin alike; only those that are written to are of one sequence each."""
    case = made(f32, 1, 8, 8, (2, 2), 2)
    case.k[1], case.v[1] = case.k[0], case.v[0]
    pools = [np.ascontiguousarray(x[0].reshape(2, 2, 4, 8).swapaxes(0, 1)) for x in case[1:3]]
    found = paged_attention(
        "cpu", case.q, *pools, np.array([[0, 1]] * 2, np.int32), np.full(2, 8, np.int32),
        scale=case.scale,
    )  # fmt: skip
    assert np.allclose(found, exact(case, f32)[0], atol=1e-6)
