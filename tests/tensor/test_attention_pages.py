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
from tests.support.thorough import one_and_others
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
    pages = Paged(keys, values, table.view(dtype))
    for pool, x in zip(pages[:2], case[1:3], strict=True):
        pool.view(np.uint8)[:] = 0xFF
        numbers_ = iter(order)
        for sequence in range(sequences):
            for column in range(used[sequence]):
                page = table[sequence, column] = next(numbers_)
                lines = x[sequence, :, column * page_size : counts[sequence]][:, :page_size]
                pool[page, :, : lines.shape[1]] = lines
    return pages


def run(
    device: AnyDevice, case: Case, pages: Paged, parts: int | None = None
) -> tuple[Array, Array]:
    """The result and the logarithms of sums, in poisoned memory whose surroundings must stay; the
    table is in memory of the device, where the host does not look."""
    assert case.lengths is not None
    out = Guarded(device, np.zeros_like(case.q))
    logs = Guarded(device, np.zeros(case.q.shape[:-1], np.float32))
    memory = [amid_poison(device, x) for x in (case.q, *pages, case.lengths)]
    returned = paged_attention(
        device, *memory, scale=case.scale, causal=case.causal, parts=parts,
        log_sums=logs.memory, out=out.memory,
    )  # fmt: skip
    assert returned is out.memory
    return out.array(), logs.array()


def check(device: AnyDevice, case: Case, element: Type, page_size: int, parts: int | None) -> None:
    """Against float64; and where parts are known, the bits of keys that are in no pages."""
    output, logs = run(device, case, paged(case, page_size), parts)
    assert case.lengths is not None
    lengths = np.minimum(case.lengths.view(np.uint32), case.k.shape[-2]).astype(np.int32)
    bounded_case = case._replace(lengths=lengths)
    wanted, wanted_logs = exact(bounded_case, element)
    assert (np.abs(numbers(output, element) - wanted) <= bound(bounded_case, element)).all()
    assert np.allclose(logs, wanted_logs, rtol=2e-6, atol=2e-5)
    if parts is None:
        return
    sums = np.zeros_like(logs)
    plain = attention_decode(
        device, *case[:3], scale=case.scale, causal=case.causal, parts=parts, lengths=lengths,
        log_sums=sums,
    )  # fmt: skip
    assert plain.tobytes() == output.tobytes()
    assert sums.tobytes() == logs.tobytes()


CASES = [(1, 64, 16, (4, 2), 16, 2), (3, 70, 40, (3, 1), 5, 1), (2, 33, 33, (2, 2), 1, 3)]
"""Queries, keys, size, heads; keys of a page, parts."""


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize("element", one_and_others(TYPES, [f32]), ids=str)
def test_edge_shapes(device: AnyDevice, element: Type) -> None:
    """Full pages and others, sequences without keys, and more keys than the table has room for."""
    some = CASES[:1] if device.kind == "webgpu" else CASES if element is f32 else CASES[1:2]
    for queries, keys, size, heads, page_size, parts in some:
        room = -(-keys // page_size) * page_size
        lengths = [keys - 1, 0, -1 if room == keys else keys, 1]
        case = made(element, queries, keys, size, heads, 4, causal=True, lengths=lengths)
        check(device, case, element, page_size, parts)


@pytest.mark.crossed("element", "name")
@pytest.mark.parametrize("element", one_and_others([f32, bf16]), ids=str)
@pytest.mark.parametrize("name", one_and_others(["emulated", "emulated:ptx"]))
def test_edge_shapes_on_emulated_gpus(name: str, element: Type) -> None:
    with open_device(name) as device:
        for size, page_size, parts in ((64, 16, 2), (40, 7, None)):
            case = made(element, 2, 90, size, (4, 2), 2, causal=True, lengths=[90, 41])
            check(device, case, element, page_size, parts)


def test_cpu_accesses_are_in_bounds(checked_cpu: AnyDevice) -> None:
    case = made(f32, 2, 40, 9, (2, 1), causal=True, lengths=[39, 8])
    check(checked_cpu, case, f32, 8, 2)


def _without_a_page(device: AnyDevice, element: Type, wrong: int) -> None:
    """Keys 8 to 15 of both sequences are of no page, wherever its number would lead."""
    case = made(element, 1, 40, 16, (2, 1), lengths=[40, 21])
    pages = paged(case, 8)
    pages.table[:, 1] = wrong
    for parts in (1, 2):
        output, logs = run(device, case, pages, parts)
        for sequence, length in enumerate((40, 21)):
            keys = [key for key in range(length) if not 8 <= key < 16]
            part = slice(sequence, sequence + 1)
            kept_case = Case(case.q[part], case.k[part, :, keys], case.v[part, :, keys], case.scale)
            wanted, wanted_logs = exact(kept_case, element)
            error = np.abs(numbers(output[sequence : sequence + 1], element) - wanted)
            assert (error <= bound(kept_case, element)).all()
            assert np.allclose(logs[sequence], wanted_logs[0], atol=2e-5)
    pages.table[:] = wrong
    output, logs = run(device, case, pages, 2)
    assert (output == 0).all()
    assert (logs == NONE).all()


@pytest.mark.crossed("device", "wrong")
@pytest.mark.parametrize("wrong", [-1, -(1 << 31), 1 << 20])
def test_keys_without_a_page_are_masked(device: AnyDevice, wrong: int) -> None:
    _without_a_page(device, f32, wrong)


@pytest.mark.parametrize("element", one_and_others([f32, f16]), ids=str)
def test_keys_without_a_page_are_masked_on_emulated_gpus(element: Type) -> None:
    with open_device("emulated:ptx") as device:
        pages = -(-40 // 8) + -(-21 // 8) + SPARE
        _without_a_page(device, element, pages)


def test_last_page_is_read() -> None:
    with open_device("cpu") as device:
        case = made(f32, 1, 8, 8, (1, 1), 1, lengths=[8])
        pages = paged(case, 8)
        last = len(pages.keys) - 1
        for pool in pages[:2]:
            pool[last] = pool[pages.table[0, 0]]
        pages.table[0, 0] = last
        output, _ = run(device, case, pages)
        assert np.allclose(output, exact(case, f32)[0], atol=1e-6)


def test_unsigned_tables_and_result_shapes() -> None:
    case = made(f32, 1, 20, 8, (2, 1), lengths=[20, 7])
    pages = paged(case, 4, np.uint32)
    output = paged_attention("cpu", case.q, *pages, case.lengths, scale=case.scale)
    assert np.allclose(output, exact(case, f32)[0], atol=1e-6)
    none = pages.table[:, :0]
    assert (paged_attention("cpu", case.q, *pages[:2], none, case.lengths) == 0).all()
    q, lengths = case.q[:0], np.zeros(0, np.int32)
    assert paged_attention("cpu", q, *pages[:2], pages.table[:0], lengths).shape == q.shape


# --- appending


@pytest.mark.crossed("device", "element")
@pytest.mark.parametrize(
    ("element", "size"), [(f32, 4), (f16, 8), (bf16, 5), (f32, 1)], ids=lambda x: str(x)
)
def test_appended_keys_are_stored_at_their_slots(
    device: AnyDevice, element: Type, size: int
) -> None:
    """Tokens within a page and over its end, fewer than a row has, none, and those of no page."""
    lengths, tokens, page_size = [9, 2, 0, 6, 8], 3, 4
    table = np.array([[6, 1, 3], [5, 99, -1], [-1, 7, 2], [0, 1 << 30, 0], [4, 8, -7]], np.int32)
    new = made(element, 1, tokens, size, (2, 2), len(lengths))
    pool = np.zeros((9, 2, page_size, size), new.q.dtype)
    pool.view(np.uint8)[:] = 0xA5
    keys, values = Guarded(device, pool, holds=True), Guarded(device, pool, holds=True)
    new_tokens = [amid_poison(device, x) for x in (new.k, new.v)]
    table_and_lengths = [amid_poison(device, x) for x in (table, np.array(lengths, np.int32))]
    append_to_pages(device, *[*new_tokens, keys.memory, values.memory, *table_and_lengths])
    for updated_pool, x in ((keys.array(), new.k), (values.array(), new.v)):
        wanted = pool.copy()
        for sequence, length in enumerate(lengths):
            for token in range(tokens):
                place = length - tokens + token
                page = table[sequence, place // page_size] if place >= 0 else -1
                if 0 <= page < len(pool):
                    wanted[page, :, place % page_size] = x[sequence, :, token]
        assert updated_pool.tobytes() == wanted.tobytes()
        assert updated_pool.tobytes() != pool.tobytes()


def test_lengths_beyond_the_table_store_nothing(device: AnyDevice) -> None:
    new = np.ones((3, 1, 2, 4), np.float32)
    pool = np.zeros((3, 1, 4, 4), np.float32)
    pools = [Guarded(device, pool, holds=True) for _ in range(2)]
    table, lengths = np.array([[0], [1], [2]], np.int32), np.array([5, -1, 1 << 30], np.int32)
    table_and_lengths = [device.upload(x) for x in (table, lengths)]
    append_to_pages(device, *[new, new, *(each.memory for each in pools), *table_and_lengths])
    assert not any(each.array().any() for each in pools)


def test_a_sequence_grows_token_by_token(device: AnyDevice) -> None:
    """Queries see an appended token and all tokens before it, with the same lengths."""
    case = made(f32, 1, 11, 8, (2, 1))
    pools = [device.upload(np.full((8, 1, 4, 8), np.nan, np.float32)) for _ in range(2)]
    table = device.upload(np.array([[3, 0, 6], [1, 7, 2]], np.int32))
    for count in range(1, 12):
        lengths = np.full(2, count, np.int32)
        new = [np.ascontiguousarray(x[:, :, count - 1 : count]) for x in case[1:3]]
        append_to_pages(device, *[*new, *pools, table, lengths])
    output = paged_attention(device, case.q, *pools, table, lengths, scale=case.scale)
    assert np.allclose(output, exact(case, f32)[0], atol=1e-6)


def test_empty_append() -> None:
    pools = [np.zeros((2, 1, 4, 8), np.float32) for _ in range(2)]
    table, lengths = np.array([[-1]], np.int32), np.array([3], np.int32)
    none = np.ones((1, 1, 0, 8), np.float32)
    append_to_pages("cpu", none, none, pools[0], pools[1], table, lengths)
    empty = np.ones((0, 1, 2, 8), np.float32)
    append_to_pages("cpu", empty, empty, pools[0], pools[1], table[:0], lengths[:0])
    token = np.ones((1, 1, 1, 8), np.float32)
    append_to_pages("cpu", token, token, pools[0], pools[1], table[:, :0], np.zeros(1, np.int32))
    assert not any(each.any() for each in pools)


# --- bad input

Q = np.ones((2, 4, 1, 8), np.float32)
POOL, OTHER = np.ones((5, 2, 4, 8), np.float32), np.ones((5, 2, 4, 8), np.float32)
TABLE, LENGTHS = np.array([[0, 1], [2, 3]], np.int32), np.array([8, 5], np.int32)
NEW = np.ones((2, 2, 2, 8), np.float32)


def call(**other: Any) -> Any:
    arguments = {
        "q": Q,
        "key_pages": POOL,
        "value_pages": OTHER,
        "table": TABLE,
        "lengths": LENGTHS,
    }
    return paged_attention("cpu", **(arguments | other))


def append(**other: Any) -> Any:
    arguments = {
        "k": NEW, "v": NEW, "key_pages": POOL, "value_pages": OTHER, "table": TABLE,
        "lengths": LENGTHS,
    }  # fmt: skip
    return append_to_pages("cpu", **(arguments | other))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: call(q=Q[0]), "q must have the axes"),
        (lambda: call(q=Q[:, :3].copy()), "key_pages has 2 heads, but must divide the 3 of q"),
        (lambda: call(key_pages=POOL[0]), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL.astype(np.float16)), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL[..., :4].copy()), "key_pages must be f32 of shape"),
        (lambda: call(key_pages=POOL[:0]), "no axis may be empty"),
        (lambda: call(key_pages=POOL[:, :, :0].copy()), "no axis may be empty"),
        (lambda: call(value_pages=POOL[:4]), "value_pages must be f32 of shape"),
        (lambda: call(table=TABLE[0]), "table must have the shape"),
        (lambda: call(table=TABLE[:1]), "table must have the shape"),
        (lambda: call(table=TABLE.astype(np.int64)), "table is of int64"),
        (lambda: call(table=np.zeros((2, 4), np.int32)[:, :2]), "table has strides"),
        (lambda: call(lengths=LENGTHS[:1]), "lengths must have the shape"),
        (lambda: call(lengths=LENGTHS.astype(np.float32)), "lengths is of float32"),
        (lambda: call(table=TABLE + 2), r"table\[1, 1\] is 5, but pages .* 0 to 4; 1 entries"),
        (lambda: call(table=-TABLE), r"table\[0, 1\] is -1, .*; 3 entries"),
        (lambda: call(scale=0), "scale must be at least"),
        (lambda: call(parts=0), "parts must be"),
        (lambda: call(log_sums=Q), "log_sums must be f32 of shape"),
        (lambda: call(out=POOL), "out must be f32 of shape"),
        (lambda: call(out=Q), "out is in the memory of q"),
        (lambda: call(out=POOL.reshape(-1)[:64].reshape(Q.shape)), "in the memory of key_pages"),
        (lambda: call(q=np.ones((2, 2, 1, 257), np.float32),
                      key_pages=np.ones((1, 1, 1, 257), np.float32)), "heads of 257"),
        (lambda: append(k=NEW[0]), "k must have the axes"),
        (lambda: append(v=NEW[:1]), "v must be f32 of shape"),
        (lambda: append(k=NEW[:, :1].copy(), v=NEW[:, :1].copy()), "key_pages has 2 heads, and k"),
        (lambda: append(value_pages=POOL), "key_pages is in the memory of value_pages"),
        (lambda: append(k=POOL.reshape(-1)[:64].reshape(NEW.shape)), "is in the memory of k"),
        (lambda: append(lengths=np.array([8, 9], np.int32)), r"lengths\[1\] is 9, but the pages"),
        (lambda: append(lengths=np.array([8, -1], np.int32)), r"lengths\[1\] is -1, but the pages"),
        (lambda: append(table=TABLE + 2), r"table\[1, 1\] is 5, but pages have the numbers 0 to 4"),
    ],
)  # fmt: skip
def test_bad_input(bad: Callable[[], Any], message: str) -> None:
    before = POOL.copy()
    with pytest.raises(InputError, match=message):
        bad()
    assert (before == POOL).all()


def test_slot_assigned_to_two_tokens_is_rejected() -> None:
    table, lengths = np.array([[0, 1], [2, 1]], np.int32), np.array([6, 6], np.int32)
    with pytest.raises(InputError, match="table assigns slot 0 of page 1 to two new keys"):
        append(table=table, lengths=lengths)
    lengths[1] = 8
    pools = [np.zeros_like(POOL) for _ in range(2)]
    append(table=table, lengths=lengths, key_pages=pools[0], value_pages=pools[1])
    assert (pools[0][1] == 1).all()


def test_shared_pages_are_read() -> None:
    """Sequences with a common prefix share pages; only written pages are exclusive."""
    case = made(f32, 1, 8, 8, (2, 2), 2)
    case.k[1], case.v[1] = case.k[0], case.v[0]
    pools = [np.ascontiguousarray(x[0].reshape(2, 2, 4, 8).swapaxes(0, 1)) for x in case[1:3]]
    output = paged_attention(
        "cpu", case.q, *pools, np.array([[0, 1]] * 2, np.int32), np.full(2, 8, np.int32),
        scale=case.scale,
    )  # fmt: skip
    assert np.allclose(output, exact(case, f32)[0], atol=1e-6)
