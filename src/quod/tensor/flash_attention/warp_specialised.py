"""Warp-specialised attention: a warpgroup copies, two others multiply in a ping-pong schedule.

While one of them computes exponentials, the other one's products run; and each computes the
exponentials of a tile of keys while values are added with the weights of the tile before. Source:
Shah et al., "FlashAttention-3" (2024), algorithms 1 and 2 and "pingpong scheduling".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.kernel import Value, f32, u32
from quod.kernel.ops.tile import SUBGROUP, WARPGROUP
from quod.tensor.flash_attention.plan import RolePlan
from quod.tensor.flash_attention.warpgroups import (
    STAGES,
    HeadTiles,
    SoftmaxState,
    WarpgroupAttention,
)
from quod.tensor.rows.exponentials import LEAST

_MULTIPLYING = 2
_TURNS = (1, 2)
"""The named barriers at which the two multiplying warpgroups wait for their turns."""
_IN_A_WARPGROUP = WARPGROUP // SUBGROUP


class RoleAttention(WarpgroupAttention):
    """Some queries of a head and the keys that they see, for a warp-specialised plan."""

    _plan: RolePlan
    readers = _MULTIPLYING * _IN_A_WARPGROUP

    def _warpgroup(self) -> Value:
        return (self._k.local_id() >> 7) - 1

    def attend(self, finish: Callable[[SoftmaxState], None]) -> None:
        k, tiles = self._k, self._tiles()
        k.barrier()
        with k.if_(k.subgroup_id() < _IN_A_WARPGROUP) as copying:
            k.registers(self._plan.registers[0])
            with k.if_(k.subgroup_id() == 0):
                self._bring(tiles)
        with copying.otherwise():
            k.registers(self._plan.registers[1])
            finish(self._multiply(tiles))

    # --- copies

    def _bring(self, tiles: Value) -> None:
        """Copy queries, then keys and values into free stages; values come a tile later."""
        k = self._k
        self._acquire()
        self._queries.copy(self._first, 0)
        self._bring_tile(self._keys, k.constant(0, u32))
        with k.range(1, tiles) as loop:
            self._bring_tile(self._keys, loop.index)
            self._bring_tile(self._values, loop.index - 1)
        self._bring_tile(self._values, tiles - 1)

    def _bring_tile(self, tiles: HeadTiles, step: Value) -> None:
        stage = step & (STAGES - 1)
        tiles.wait_until_read(stage, step >> 1)
        tiles.copy(step * self._plan.keys, stage)

    # --- products

    def _multiply(self, tiles: Value) -> SoftmaxState:
        k = self._k
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        last = tiles - 1
        if self._plan.turns:
            with k.if_(k.subgroup_id() >= 2 * _IN_A_WARPGROUP), k.if_(last > 0):
                self._arrive(0)
        self._queries.wait(0, 0)
        first = k.constant(0, u32)
        logits = k.mma_wait(0, self._products(first))
        self._keys.release(first)
        state = SoftmaxState([least] * 2, [zero] * 2, [zero] * (self._plan.size // 2))
        words, after, _ = self._weighed(logits, first, state, masked=True)
        carried: Any = (words, after.tops, after.totals, state.sums)
        carried = self._steps(k.constant(1, u32), self._whole(last), last, carried, masked=False)
        carried = self._steps(self._whole(last), tiles, last, carried, masked=True)
        words, tops, totals, sums = carried
        sums = k.mma_wait(0, self._add(last, words, sums))
        return self._reduced(tops, totals, sums)

    def _steps(self, begin: Value, end: Value, last: Value, carried: Any, *, masked: bool) -> Any:
        """Process the steps from `begin` to `end` - 1.

        Steps carry the weights of their tile, the greatest products, totals, and the sums of the
        tiles before.
        """
        k = self._k
        with k.range(begin, end, carry=carried) as loop:
            (words, tops, totals, sums), step = loop.carried, loop.index
            if self._plan.turns:
                self._await_turn()
            logits = self._products(step)
            sums = self._add(step - 1, words, sums)
            if self._plan.turns:
                self._pass_turn(step, last)
            logits = k.mma_wait(1, logits)
            self._keys.release(step & (STAGES - 1))
            words, after, scales = self._weighed(
                logits, step, SoftmaxState(tops, totals, []), masked=masked
            )
            sums = k.mma_wait(0, sums)
            self._values.release((step - 1) & (STAGES - 1))
            loop.next((words, after.tops, after.totals, self._scaled(sums, scales)))
        return loop.results

    def _await_turn(self) -> None:
        k = self._k
        with k.if_(k.subgroup_id() < 2 * _IN_A_WARPGROUP) as first:
            k.named_barrier(_TURNS[0], _MULTIPLYING * WARPGROUP)
        with first.otherwise():
            k.named_barrier(_TURNS[1], _MULTIPLYING * WARPGROUP)

    def _pass_turn(self, step: Value, last: Value) -> None:
        """Pass the turn to the other warpgroup; the second one's last turn is the last of all."""
        k = self._k
        with k.if_(k.subgroup_id() < 2 * _IN_A_WARPGROUP) as first:
            self._arrive(1)
        with first.otherwise(), k.if_(step < last):
            self._arrive(0)

    def _arrive(self, turn: int) -> None:
        self._k.named_barrier_arrive(_TURNS[turn], _MULTIPLYING * WARPGROUP)
