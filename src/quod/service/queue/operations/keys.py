"""Losses of workers by key: their count, and the suspension of a key at the limit.

Each job counts once, so one bad witness, whose attempts are limited, does not suspend its key.
Leases found lost together count once, as they indicate the loss of a machine.
"""

from __future__ import annotations

import logging

from quod.service.queue.operations.rows import PartState, next_event, read_jobs, write_events
from quod.service.queue.operations.rules import Rules
from quod.service.queue.signals import WORK
from quod.service.queue.transaction import Transaction, in_chunks


def blame(tx: Transaction, rules: Rules, key: str, job: int) -> None:
    """Count the loss of a worker with a job of this key; suspend the key at the limit."""
    tx.run(
        "INSERT INTO proving_key (key, suspended, reason, losses, last_lost) "
        "VALUES (?, 0, '', 1, ?) ON CONFLICT (key) DO UPDATE SET losses = proving_key.losses + 1, "
        "last_lost = excluded.last_lost WHERE proving_key.last_lost <> excluded.last_lost",
        (key, job),
    )
    [(losses, suspended)] = tx.rows(
        "SELECT losses, suspended FROM proving_key WHERE key = ?", (key,)
    )
    if losses >= rules.limits.suspend_after and not suspended:
        suspend(tx, rules, key, f"workers died with {losses} jobs in a row")


def forgive(tx: Transaction, key: str) -> None:
    """Reset the losses of a key after a success; takes no lock if there were none."""
    tx.run("UPDATE proving_key SET losses = 0, last_lost = 0 WHERE key = ? AND losses > 0", (key,))


def suspend(tx: Transaction, rules: Rules, key: str, reason: str) -> None:
    """Suspend a key: new jobs are refused and waiting ones held; running ones may finish."""
    tx.run(
        "INSERT INTO proving_key (key, suspended, reason, losses, last_lost) "
        "VALUES (?, 1, ?, 0, 0) ON CONFLICT (key) DO UPDATE SET suspended = 1, "
        "reason = excluded.reason",
        (key, reason),
    )
    tx.changes.note(logging.WARNING, "a key was suspended", key=key, reason=reason)
    _write_key_events(tx, rules, hold(tx, key), "held")


def resume(tx: Transaction, rules: Rules, key: str) -> None:
    """Resume a key: its jobs are leased again, and its losses are reset."""
    tx.run("DELETE FROM proving_key WHERE key = ?", (key,))
    tx.changes.note(logging.INFO, "a key was resumed", key=key)
    moved = _change_state(tx, key, PartState.HELD, PartState.QUEUED)
    _write_key_events(tx, rules, moved, "resumed")
    tx.changes.topics.add(WORK)


def hold(tx: Transaction, key: str) -> set[int]:
    """Hold the waiting partitions of a key; return the numbers of their jobs."""
    return _change_state(tx, key, PartState.QUEUED, PartState.HELD)


def _change_state(tx: Transaction, key: str, source: PartState, target: PartState) -> set[int]:
    rows = tx.rows(
        f"UPDATE part SET state = {target:d} WHERE key = ? AND state = {source:d} RETURNING job",
        (key,),
    )
    return {job for (job,) in rows}


def _write_key_events(tx: Transaction, rules: Rules, numbers: set[int], kind: str) -> None:
    now = rules.clock.wall()
    for chunk in in_chunks(sorted(numbers)):
        jobs = read_jobs(tx, chunk, lock=True).values()
        write_events(tx, [next_event(job, now, kind) for job in jobs])
        tx.many(
            "UPDATE job SET events = ? WHERE number = ?", [(job.events, job.number) for job in jobs]
        )
