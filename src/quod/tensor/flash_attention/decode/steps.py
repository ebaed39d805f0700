"""The loop of a decode workgroup over its part of the keys.

Each step multiplies a few rows of queries with some keys, and adds the weighted values to the sums.
Weights are relative to the running maximum, as in `flash_attention.kernel`. On a GPU, a few
adjacent instances have one key in registers, and add their partial products by shuffles. On a CPU,
where a shuffle goes through memory, each lane computes the logit of one key.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32
from quod.tensor.flash_attention.decode.lines import Grid, RowTile, both
from quod.tensor.flash_attention.decode.plan import DecodePlan
from quod.tensor.flash_attention.decode.prefetch import LineAccesses, Prefetcher
from quod.tensor.rows.exponentials import LEAST

SoftmaxState = tuple[list[Value], list[Value], Grid]
"""The running maxima, denominators and sums of weighted values, indexed by an instance's rows."""


@frozen(eq=False)
class KeyRange:
    """The range of keys of a part, and its mask.

    begin: The first key.
    end: The exclusive end.
    by_all: The exclusive end of the keys that all rows see.
    seen: The number of keys that each row sees; None if all rows see all keys.
    """

    begin: Value
    end: Value
    by_all: Value
    seen: list[Value] | None

    def inside(self, k: Builder, key: Value, row: int) -> Value:
        """Return whether a row sees a key of the part."""
        stop = self.end if self.seen is None else k.minimum(self.seen[row], self.end)
        return key < stop


@frozen(eq=False)
class InstanceLayout:
    """The layout of an instance's results.

    rows: The rows of the tile that the instance has results of.
    access_indices: The indices of the accesses, in each row, that it has sums of.
    stores: Whether the instance stores sums of values.
    stores_numbers: Whether the instance stores a row's maximum and denominator.
    distances: The XOR distances of the shuffles that combine the instances of a subgroup.
    """

    rows: list[Value]
    access_indices: list[Value]
    stores: Value
    stores_numbers: Value
    distances: list[int]


class Steps(ABC):
    """The loop of a workgroup over keys, `step` keys per iteration."""

    _unmasked = True
    """True if steps without masks have a loop of their own, as they are faster."""

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        _, self._keys, self._values = tensors
        self._k, self._plan, self._row_tile, self._factor = k, plan, row_tile, factor
        self._least, self._zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        self.step = plan.step(k.workgroup_size)
        """Keys that the workgroup processes at a time."""
        self._prefetcher: Prefetcher | None = None

    @property
    @abstractmethod
    def held(self) -> InstanceLayout:
        """The layout of the results."""

    @abstractmethod
    def _add_keys(self, first: Value, state: SoftmaxState, span: KeyRange | None) -> SoftmaxState:
        """Return the state with a step's keys added, masked by `span` unless it is None."""

    def run(self, span: KeyRange) -> SoftmaxState:
        """Return this instance's results for the keys of a part."""
        if self._prefetcher is not None:
            self._prefetcher.start(span.begin, span.end)
        state = self._process_keys(span)
        if self._prefetcher is not None:
            self._k.copy_async_wait()
        return state

    def _process_keys(self, span: KeyRange) -> SoftmaxState:
        """Run the loop without masks if there is one, then the loop with masks."""
        layout, size = self.held, self._plan.vector
        rows = len(layout.rows)
        state: SoftmaxState = (
            [self._least] * rows, [self._zero] * rows,
            [[self._zero] * (len(layout.access_indices) * size) for _ in range(rows)],
        )  # fmt: skip
        unmasked_end = span.begin
        if self._unmasked:
            # Full steps of keys that all rows see need no masks.
            full_steps = (self._k.maximum(span.by_all, unmasked_end) - unmasked_end) // self.step
            unmasked_end = unmasked_end + full_steps * self.step
            state = self._loop(span.begin, unmasked_end, state, None)
        return self._loop(unmasked_end, span.end, state, span)

    def _loop(
        self, start: Value, end: Value, state: SoftmaxState, span: KeyRange | None
    ) -> SoftmaxState:
        """Add the keys from `start` to `end` - 1 to a state."""
        with self._k.range(start, end, self.step, carry=state) as loop:
            loop.next(self._add_keys(loop.index, loop.carried, span))
        results: SoftmaxState = loop.results
        return results

    def _reduce_lanes(
        self, value: Value, combine: Callable[[Value, Value], Value], count: int
    ) -> Value:
        """Reduce a value over `count` adjacent instances; all of them get the result."""
        distance = count // 2
        while distance:
            value = combine(value, self._k.shuffle(value, self._k.lane_id() ^ distance))
            distance //= 2
        return value

    def _mask_logit(self, logit: Value, visible: Value | None) -> Value:
        return logit if visible is None else self._k.select(visible, logit, self._least)

    def _weight(self, logit: Value, visible: Value | None, maximum: Value) -> Value:
        power = self._k.exp2(logit - maximum, flush_subnormals=True)
        return power if visible is None else self._k.select(visible, power, self._zero)


class _StepsOfLines(Steps):
    """Steps in which adjacent instances share a key; each has some elements of all rows."""

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, row_tile, tensors, factor)
        self._queries = row_tile.queries(tensors[0])

    @property
    def held(self) -> InstanceLayout:
        k, plan, lane_index = self._k, self._plan, self._row_tile.own
        distances, distance = [], plan.across
        while distance < min(k.subgroup_size, k.workgroup_size):
            distances.append(distance)
            distance *= 2
        return InstanceLayout(
            [k.constant(row, u32) for row in range(plan.rows)],
            [lane_index + access * plan.across for access in range(plan.accesses)],
            k.lane_id() < plan.across, k.lane_id() == 0, distances,
        )  # fmt: skip

    def _inner_product(self, row: Sequence[Value], key: Sequence[Value]) -> Value:
        denominator = row[0] * key[0]
        for a, b in zip(row[1:], key[1:], strict=True):
            denominator = self._k.fma(a, b, denominator)
        return denominator


class StepsOfSubgroups(_StepsOfLines):
    """Steps on a GPU: a group of instances processes `batch` keys at a time."""

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, row_tile, tensors, factor)
        if plan.ahead:
            self._prefetcher = Prefetcher(
                k, plan, row_tile, 2 * plan.batch * plan.accesses, self.step, self._prefetched_lines
            )

    def _keys_of_instance(self, first_key: Value) -> list[Value]:
        """Return the keys of a step that this instance multiplies."""
        row_tile = self._row_tile
        return [
            first_key + (position * row_tile.groups + row_tile.group)
            for position in range(self._plan.batch)
        ]

    def _prefetched_lines(self, first_key: Value) -> list[LineAccesses]:
        keys, access_indices = self._keys_of_instance(first_key), self.held.access_indices
        return [LineAccesses(tensor, keys, access_indices) for tensor in (self._keys, self._values)]

    def _load_lines(
        self, first_key: Value, span: KeyRange | None
    ) -> tuple[list[Value | None], Grid, Grid]:
        """Return whether each key's page exists (None: always), and lines of keys and values."""
        k, row_tile, keys_of_instance = self._k, self._row_tile, self._keys_of_instance(first_key)
        if self._prefetcher is not None:
            buffer_indices = self._prefetcher.wait_for(first_key)
            pages_exist = [self._prefetcher.key(key_)[1] for key_ in keys_of_instance]
            accesses = [
                row_tile.accesses.load(self._prefetcher.buffer, index) for index in buffer_indices
            ]
            count = self._plan.accesses
            lines = [
                [value for access in accesses[start : start + count] for value in access]
                for start in range(0, len(accesses), count)
            ]
            return pages_exist, lines[: len(keys_of_instance)], lines[len(keys_of_instance) :]
        # Memory beyond the last key may be NaN.
        clamped_keys = (
            keys_of_instance
            if span is None
            else [k.minimum(key_, span.end - 1) for key_ in keys_of_instance]
        )
        offsets = [row_tile.key(key_) for key_ in clamped_keys]
        keys = [row_tile.load(row_tile.at(self._keys, offset)) for offset, _ in offsets]
        values = [
            row_tile.value(row_tile.at(self._values, offset), exists) for offset, exists in offsets
        ]
        return [exists for _, exists in offsets], keys, values

    def _add_keys(
        self, first_key: Value, state: SoftmaxState, span: KeyRange | None
    ) -> SoftmaxState:
        k, key_indices = self._k, self._keys_of_instance(first_key)
        pages_exist, keys, values = self._load_lines(first_key, span)
        maxima, denominators, value_sums = [], [], []
        for row, (query, maximum, denominator, old_sums) in enumerate(
            zip(self._queries, *state, strict=True)
        ):
            logits, masks = [], []
            for key_index, page_exists, key in zip(key_indices, pages_exist, keys, strict=True):
                product = self._reduce_lanes(
                    self._inner_product(query, key), operator.add, self._plan.across
                )
                visible = both(
                    page_exists, None if span is None else span.inside(k, key_index, row)
                )
                masks.append(visible)
                logits.append(self._mask_logit(product * self._factor, visible))
            maxima.append(reduce(k.maximum, logits, maximum))
            scale = k.exp2(maximum - maxima[-1], flush_subnormals=True)
            weights = [
                self._weight(*logit_mask, maxima[-1])
                for logit_mask in zip(logits, masks, strict=True)
            ]
            denominators.append(reduce(operator.add, weights, denominator * scale))
            # Beyond the last key, prefetched lines are zeros; other lines repeat the last key.
            needs_mask = span is not None and (span.seen is not None or self._prefetcher is None)
            row_sums = []
            for element, sum_ in enumerate(old_sums):
                sum_ = sum_ * scale
                for weight, value, visible in zip(weights, values, masks, strict=True):
                    with_key = k.fma(weight, value[element], sum_)
                    # A weight of 0 does not mask a value that is NaN or infinite.
                    if needs_mask and visible is not None:
                        with_key = k.select(visible, with_key, sum_)
                    sum_ = with_key
                row_sums.append(sum_)
            value_sums.append(row_sums)
        return maxima, denominators, value_sums


class StepsOfVectors(_StepsOfLines):
    """Steps on a CPU: a lane multiplies some elements of all keys, then computes one key's logit.

    The lanes store partial products in shared memory, and each lane sums those of its key. So one
    exponential instruction serves a vector of keys.
    """

    _unmasked = False

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, tensors: tuple[Value, Value, Value],
        factor: Value,
    ) -> None:  # fmt: skip
        super().__init__(k, plan, row_tile, tensors, factor)
        self.step = self._lanes = k.workgroup_size
        self._partial_products = k.shared(f32, plan.rows * self._lanes * self._lanes)
        self._weights = k.shared(f32, plan.rows * self._lanes)

    def run(self, span: KeyRange) -> SoftmaxState:
        maxima, denominators, value_sums = super().run(span)
        return (
            maxima,
            [
                self._reduce_lanes(denominator, operator.add, self._lanes)
                for denominator in denominators
            ],
            value_sums,
        )

    def _add_keys(
        self, first_key: Value, state: SoftmaxState, span: KeyRange | None
    ) -> SoftmaxState:
        k, row_tile, lanes, zero = self._k, self._row_tile, self._lanes, self._k.constant(0, u32)
        assert span is not None
        count = k.minimum(span.end - first_key, lanes)
        k.barrier()
        with k.range(zero, count) as loop:
            key_offset, _ = row_tile.key(first_key + loop.index)
            key = row_tile.load(row_tile.at(self._keys, key_offset))
            for row, query in enumerate(self._queries):
                product_index = (loop.index + row * lanes) * lanes + k.local_id()
                self._partial_products[product_index] = self._inner_product(query, key)
        k.barrier()
        # Clamped to the last key.
        key_index = k.minimum(k.local_id(), count - 1)
        _, exists = row_tile.key(first_key + key_index, per_instance=True)
        maxima, denominators, scales = [], [], []
        for row, (maximum, denominator) in enumerate(zip(*state[:2], strict=True)):
            visible = both(exists, span.inside(k, first_key + k.local_id(), row))
            product_start = (key_index + row * lanes) * lanes
            product = reduce(
                operator.add,
                [self._partial_products[product_start + lane] for lane in range(lanes)],
            )
            logit = self._mask_logit(product * self._factor, visible)
            maxima.append(k.maximum(maximum, self._reduce_lanes(logit, k.maximum, lanes)))
            scales.append(k.exp2(maximum - maxima[-1], flush_subnormals=True))
            weight = self._weight(logit, visible, maxima[-1])
            denominators.append(denominator * scales[-1] + weight)
            self._weights[k.local_id() + row * lanes] = weight
        k.barrier()
        value_sums = [
            [value * scale for value in row] for row, scale in zip(state[2], scales, strict=True)
        ]
        unmasked_count = count
        if span.seen is not None:
            unmasked_count = k.minimum(k.maximum(span.by_all, first_key) - first_key, count)
        value_sums = self._add_values(first_key, (zero, unmasked_count), value_sums, None)
        if span.seen is not None:
            value_sums = self._add_values(first_key, (unmasked_count, count), value_sums, span)
        return maxima, denominators, value_sums

    def _add_values(
        self, first_key: Value, keys: tuple[Value, Value], sums: Grid, span: KeyRange | None
    ) -> Grid:  # fmt: skip
        """Return `sums` plus the weighted values of a step's keys from keys[0] to keys[1] - 1.

        With a span, a key does not change rows that do not see it, even if its value is NaN.
        """
        k, row_tile = self._k, self._row_tile
        with k.range(*keys, carry=sums) as loop:
            value_offset, exists = row_tile.key(first_key + loop.index)
            values = row_tile.value(row_tile.at(self._values, value_offset), exists)
            new_sums = []
            for row, sums_ in enumerate(loop.carried):
                weight = self._weights[loop.index + row * self._lanes]
                new_row = [
                    k.fma(weight, value, sum_) for value, sum_ in zip(values, sums_, strict=True)
                ]
                if span is not None:
                    visible = span.inside(k, first_key + loop.index, row)
                    new_row = [
                        k.select(visible, new, old) for new, old in zip(new_row, sums_, strict=True)
                    ]
                new_sums.append(new_row)
            loop.next(new_sums)
        results: Grid = loop.results
        return results
