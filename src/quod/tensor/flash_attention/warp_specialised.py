"""Warp-specialised attention: a warpgroup copies, two others multiply.

Within a warpgroup, the exponentials of one tile of keys overlap with the product of the previous
tile's weights and values. In the optional ping-pong schedule, the products of one multiplying
warpgroup also run while the other computes exponentials. Source: Shah et al., "FlashAttention-3"
(2024), algorithms 1 and 2 and "pingpong scheduling".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.kernel import Value, f32, u32
from quod.kernel.ops.tile import SUBGROUP, WARPGROUP
from quod.tensor.flash_attention.plan import WarpSpecialisedPlan
from quod.tensor.flash_attention.warpgroups import (
    STAGES,
    HeadTiles,
    SoftmaxState,
    WarpgroupAttention,
)
from quod.tensor.rows.exponentials import LEAST

_MULTIPLIERS = 2
"""Warpgroups that multiply; one more copies."""
_TURN_BARRIERS = (1, 2)
"""The named barrier of each multiplying warpgroup, at which it waits for its turn."""
_SUBGROUPS_PER_WARPGROUP = WARPGROUP // SUBGROUP


class WarpSpecialisedAttention(WarpgroupAttention):
    """The attention of one tile of queries, for a warp-specialised plan."""

    _plan: WarpSpecialisedPlan
    releasing_subgroups = _MULTIPLIERS * _SUBGROUPS_PER_WARPGROUP

    def _query_warpgroup(self) -> Value:
        # The first warpgroup copies; its index wraps and is not used.
        return super()._query_warpgroup() - 1

    def attend(self, finish: Callable[[SoftmaxState], None]) -> None:
        """Let the first warpgroup copy, and the others multiply and call `finish`."""
        k, tile_count = self._k, self._tile_count()
        k.barrier()
        with k.if_(k.subgroup_id() < _SUBGROUPS_PER_WARPGROUP) as copies:
            k.registers(self._plan.registers[0])
            with k.if_(k.subgroup_id() == 0):
                self._copy_all(tile_count)
        with copies.otherwise():
            k.registers(self._plan.registers[1])
            finish(self._multiply(tile_count))

    # --- copies

    def _copy_all(self, tile_count: Value) -> None:
        """Copy the queries, then tiles of keys and values as stages become free.

        The values of a tile are copied after the keys of the next tile.
        """
        k = self._k
        self._acquire_tensor_maps()
        self._queries.copy(self._first, 0)
        self._copy_tile(self._keys, k.constant(0, u32))
        with k.range(1, tile_count) as loop:
            self._copy_tile(self._keys, loop.index)
            self._copy_tile(self._values, loop.index - 1)
        self._copy_tile(self._values, tile_count - 1)

    def _copy_tile(self, tiles: HeadTiles, step: Value) -> None:
        stage = step & (STAGES - 1)
        tiles.wait_until_read(stage, step >> 1)
        tiles.copy(step * self._plan.keys, stage)

    # --- products

    def _multiply(self, tile_count: Value) -> SoftmaxState:
        """Process all tiles of keys in a multiplying warpgroup; return its softmax state."""
        k = self._k
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        last_tile = tile_count - 1
        if self._plan.ping_pong:
            # The second multiplying warpgroup gives the first one the first turn.
            with k.if_(k.subgroup_id() >= 2 * _SUBGROUPS_PER_WARPGROUP), k.if_(last_tile > 0):
                self._arrive(0)
        self._queries.wait(0, 0)
        first_tile = k.constant(0, u32)
        logits = k.mma_wait(0, self._start_logits(first_tile))
        self._keys.release(first_tile)
        state = SoftmaxState([least] * 2, [zero] * 2, [zero] * (self._plan.size // 2))
        weights, new_state, _ = self._softmax_weights(logits, first_tile, state, masked=True)
        carried: Any = (weights, new_state.maxima, new_state.denominators, state.value_sums)
        carried = self._steps(
            k.constant(1, u32), self._first_masked_step(last_tile), last_tile, carried, masked=False
        )
        carried = self._steps(
            self._first_masked_step(last_tile), tile_count, last_tile, carried, masked=True
        )
        weights, maxima, denominators, value_sums = carried
        value_sums = k.mma_wait(0, self._start_value_products(last_tile, weights, value_sums))
        return self._combine_lanes_of_row(maxima, denominators, value_sums)

    def _steps(
        self, first_step: Value, end_step: Value, last_tile: Value, carried: Any, *, masked: bool
    ) -> Any:
        """Process the steps from `first_step` to `end_step` - 1.

        carried: The weights of the previous tile, the running maxima, the denominators, and the
            value sums without that tile.
        """
        k = self._k
        with k.range(first_step, end_step, carry=carried) as loop:
            (weights, maxima, denominators, value_sums), step = loop.carried, loop.index
            if self._plan.ping_pong:
                self._await_turn()
            logits = self._start_logits(step)
            value_sums = self._start_value_products(step - 1, weights, value_sums)
            if self._plan.ping_pong:
                self._pass_turn(step, last_tile)
            logits = k.mma_wait(1, logits)
            self._keys.release(step & (STAGES - 1))
            weights, new_state, scales = self._softmax_weights(
                logits, step, SoftmaxState(maxima, denominators, []), masked=masked
            )
            value_sums = k.mma_wait(0, value_sums)
            self._values.release((step - 1) & (STAGES - 1))
            loop.next(
                (
                    weights,
                    new_state.maxima,
                    new_state.denominators,
                    self._rescale(value_sums, scales),
                )
            )
        return loop.results

    def _await_turn(self) -> None:
        """Wait until the other multiplying warpgroup has started its products."""
        k = self._k
        with k.if_(k.subgroup_id() < 2 * _SUBGROUPS_PER_WARPGROUP) as is_first:
            k.named_barrier(_TURN_BARRIERS[0], _MULTIPLIERS * WARPGROUP)
        with is_first.otherwise():
            k.named_barrier(_TURN_BARRIERS[1], _MULTIPLIERS * WARPGROUP)

    def _pass_turn(self, step: Value, last_tile: Value) -> None:
        """Let the other warpgroup start its products.

        After the last step, the second warpgroup signals nobody, as no warpgroup waits for it.
        """
        k = self._k
        with k.if_(k.subgroup_id() < 2 * _SUBGROUPS_PER_WARPGROUP) as is_first:
            self._arrive(1)
        with is_first.otherwise(), k.if_(step < last_tile):
            self._arrive(0)

    def _arrive(self, turn: int) -> None:
        self._k.named_barrier_arrive(_TURN_BARRIERS[turn], _MULTIPLIERS * WARPGROUP)
