"""How the interpreter runs subgroups that go their own ways: one part of them after the other.

Each part has a thread, of which one at a time goes on until it waits at a barrier. So what comes of
a kernel does not depend on chance; what waits when nobody can go on waits for ever, an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter_clocks import Clocks
from quod.kernel.interpreter_run import Mask, Run
from quod.kernel.ir import Op
from quod.kernel.semantics import Array

_WORKGROUP = 0
"""The barrier of all instances."""


class _Stopped(BaseException):
    """Ends the thread of a part after an error elsewhere."""


class _Part:
    """Instances that go the same ways."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.go = threading.Semaphore(0)
        self.waits_at: tuple[Op, int] | None = None
        self.is_done = False
        self.rounds: dict[Op, int] = {}


class Parts:
    """The parts of a workgroup while they run."""

    def __init__(self, run: Run, lanes: list[Array]) -> None:
        self._run = run
        self.clocks = Clocks(run.lanes, run.subgroup_size)
        self._parts = [_Part(Mask(own)) for own in lanes]
        self._back = threading.Semaphore(0)
        self._here: dict[int, Array] = {}
        self._agreed: dict[tuple[Op, int], Array] = {}
        self._current = self._parts[0]
        self._error: BaseException | None = None
        self._is_stopped = False

    def go(self, body: Callable[[Mask], None]) -> None:
        """Runs each part to its end; raises what one of them raises, or that none can go on."""
        threads = [
            threading.Thread(target=self._follow, args=(part, body), daemon=True)
            for part in self._parts
        ]
        for thread in threads:
            thread.start()
        try:
            while not all(part.is_done for part in self._parts):
                ready = [p for p in self._parts if not p.is_done and p.waits_at is None]
                if not ready:
                    raise self._stuck()
                self._current = ready[0]
                self._current.go.release()
                self._back.acquire()
                if self._error is not None:
                    raise self._error
        finally:
            self._is_stopped = True
            for part in self._parts:
                part.go.release()
            for thread in threads:
                thread.join()

    def _follow(self, part: _Part, body: Callable[[Mask], None]) -> None:
        part.go.acquire()
        try:
            if not self._is_stopped:
                with np.errstate(all="ignore"):
                    body(part.mask)
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        part.is_done = True
        self._back.release()

    def _stuck(self) -> InterpreterError:
        part = next(part for part in self._parts if part.waits_at is not None)
        assert part.waits_at is not None
        op, number = part.waits_at
        what = f"named barrier {number}" if number else "barrier"
        here, first = int(self._here[number].sum()), int(np.argmax(part.mask.bits))
        return self._run.place(op.location).error(
            first, f"waits for ever at the {what}, to which {here} instances have come"
        )

    def _again(self, op: Op, number: int) -> InterpreterError:
        return self._run.place(op.location).error(
            int(np.argmax(self._current.mask.bits)),
            f"may come to the named barrier {number} again before the others have come",
        )

    def come(self, op: Op, number: int, count: int, *, waits: bool) -> None:
        """The part that runs comes to a barrier of so many instances."""
        part = self._current
        here = self._here.setdefault(number, np.zeros(self._run.lanes, np.bool_))
        if (here & part.mask.bits).any():
            raise self._again(op, number)
        here |= part.mask.bits
        if not self.clocks.come(number, part.mask.bits, waits=waits):
            raise self._again(op, number)
        if np.count_nonzero(here) == count:
            del self._here[number]
            self.clocks.meet(number)
            for other in self._parts:
                if other.waits_at is not None and other.waits_at[1] == number:
                    other.waits_at = None
        elif waits:
            part.waits_at = op, number
            self._back.release()
            part.go.acquire()
            if self._is_stopped:
                raise _Stopped

    def meet_all(self, op: Op) -> None:
        """The part that runs comes to the barrier of the workgroup."""
        self.come(op, _WORKGROUP, self._run.width, waits=True)

    def agree(self, op: Op, value: Array) -> Array:
        """What the first part had that came here as often as this one: one value."""
        round_ = self._current.rounds[op] = self._current.rounds.get(op, 0) + 1
        return self._agreed.setdefault((op, round_), value)
