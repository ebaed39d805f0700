"""Interpretation of roles: cooperative threads, one for each part of a workgroup.

One thread at a time runs until it waits at a barrier, so results are deterministic. If no thread
can continue, the waits are a deadlock, reported as an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from quod.frozen import frozen
from quod.kernel.builder.roles import Roles
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.run import Mask, Run
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array

_WORKGROUP = 0
"""The barrier of all instances."""


class _Stopped(BaseException):
    """Raised in the thread of a part to end it after an error elsewhere."""


@frozen(eq=False)
class _Waiting:
    """The condition a part waits for, and the error if it deadlocks."""

    is_over: Callable[[], bool]
    deadlock_error: Callable[[], InterpreterError]


class _Part:
    """Instances that take the same sides of all branches that make roles."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.go = threading.Semaphore(0)
        self.waiting: _Waiting | None = None
        self.is_done = False
        self.executions: dict[Op, int] = {}

    @property
    def may_go(self) -> bool:
        return not self.is_done and (self.waiting is None or self.waiting.is_over())


class Parts:
    """The parts of a workgroup while they run."""

    def __init__(self, run: Run, roles: Roles) -> None:
        self._run, self.first_instance = run, roles.first_instance
        self.clocks = Clocks(run.lanes, run.subgroup_size)
        self._parts = [_Part(Mask(lanes)) for lanes in roles.parts()]
        self._scheduler_turn = threading.Semaphore(0)
        self._arrivals: dict[int, Array] = {}
        self._completed_uses: dict[int, int] = {}
        """The number of completed uses of each barrier."""
        self._agreed_values: dict[tuple[Op, int], Array] = {}
        self._current = self._parts[0]
        self._error: BaseException | None = None
        self._is_stopped = False

    def go(self, body: Callable[[Mask], None]) -> None:
        """Run all parts to their ends; raise a part's error, or InterpreterError for a deadlock."""
        threads = [
            threading.Thread(target=self._run_part, args=(part, body), daemon=True)
            for part in self._parts
        ]
        for thread in threads:
            thread.start()
        try:
            while not all(part.is_done for part in self._parts):
                runnable = next((part for part in self._parts if part.may_go), None)
                if runnable is None:
                    raise self._deadlock_error()
                self._current, runnable.waiting = runnable, None
                self._current.go.release()
                self._scheduler_turn.acquire()
                if self._error is not None:
                    raise self._error
        finally:
            self._is_stopped = True
            for part in self._parts:
                part.go.release()
            for thread in threads:
                thread.join()

    def _run_part(self, part: _Part, body: Callable[[Mask], None]) -> None:
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
        self._scheduler_turn.release()

    def _deadlock_error(self) -> InterpreterError:
        """Return the error of a deadlock, with the waits of all parts, as any may be the cause."""
        errors = [part.waiting.deadlock_error() for part in self._parts if part.waiting is not None]
        location = errors[0].location
        messages = dict.fromkeys(str(error) for error in errors)
        return InterpreterError("; and ".join(messages).removeprefix(f"{location}: "), location)

    def wait(
        self, is_over: Callable[[], bool], deadlock_error: Callable[[], InterpreterError]
    ) -> None:
        """Suspend the running part until a condition holds."""
        part = self._current
        if not is_over():
            part.waiting = _Waiting(is_over, deadlock_error)
            self._scheduler_turn.release()
            part.go.acquire()
            if self._is_stopped:
                raise _Stopped

    def _repeated_arrival_error(self, op: Op, number: int) -> InterpreterError:
        return self._run.place(op.location).error(
            int(np.argmax(self._current.mask.bits)),
            f"may come to the named barrier {number} again before the others have come",
        )

    def arrive(self, op: Op, barrier: int, expected: int, *, waits: bool) -> None:
        """Let the running part arrive at a barrier of `expected` instances, and wait if `waits`."""
        part = self._current
        arrivals = self._arrivals.setdefault(barrier, np.zeros(self._run.lanes, np.bool_))
        if (arrivals & part.mask.bits).any():
            raise self._repeated_arrival_error(op, barrier)
        arrivals |= part.mask.bits
        if not self.clocks.come(barrier, part.mask.bits, waits=waits):
            raise self._repeated_arrival_error(op, barrier)
        if np.count_nonzero(arrivals) == expected:
            del self._arrivals[barrier]
            self.clocks.meet(barrier)
            self._completed_uses[barrier] = self._completed_uses.get(barrier, 0) + 1
        elif waits:
            uses, first_instance = (
                self._completed_uses.get(barrier, 0),
                int(np.argmax(part.mask.bits)),
            )

            def deadlock_error() -> InterpreterError:
                barrier_name = f"named barrier {barrier}" if barrier else "barrier"
                arrived = int(self._arrivals[barrier].sum())
                return self._run.place(op.location).error(
                    first_instance,
                    f"waits for ever at the {barrier_name}, to which {arrived} instances have come",
                )

            self.wait(lambda: self._completed_uses.get(barrier, 0) > uses, deadlock_error)

    def wait_for_all(self, op: Op) -> None:
        """Let the running part wait at the barrier of the workgroup."""
        self.arrive(op, _WORKGROUP, self._run.width, waits=True)

    def first_value(self, op: Op, value: Array) -> Array:
        """Return the value of the first part that reached this execution of the op."""
        execution = self._current.executions[op] = self._current.executions.get(op, 0) + 1
        return self._agreed_values.setdefault((op, execution), value)
