"""Keys with which workers die: counted, and suspended before they end all workers.

A key is counted once for each of its jobs, so that one bad witness, which its own attempts end,
does not suspend it; and once for all leases that are found lost together, for then it is a machine
that was lost.
"""

from __future__ import annotations

import logging

from quod.service.queue.operations.rows import PartState, next_event, read_jobs, write_events
from quod.service.queue.operations.rules import Rules
from quod.service.queue.signals import WORK
from quod.service.queue.transaction import Transaction, in_chunks


def blame(tx: Transaction, rules: Rules, key: str, job: int) -> None:
    """A worker has died with a job of this key."""
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
    """A worker has finished something with this key; takes no lock unless there was something."""
    tx.run("UPDATE proving_key SET losses = 0, last_lost = 0 WHERE key = ? AND losses > 0", (key,))


def suspend(tx: Transaction, rules: Rules, key: str, reason: str) -> None:
    """Takes no more jobs of a key, and gives none out; what runs may be finished."""
    tx.run(
        "INSERT INTO proving_key (key, suspended, reason, losses, last_lost) "
        "VALUES (?, 1, ?, 0, 0) ON CONFLICT (key) DO UPDATE SET suspended = 1, "
        "reason = excluded.reason",
        (key, reason),
    )
    tx.changes.note(logging.WARNING, "a key was suspended", key=key, reason=reason)
    _tell(tx, rules, hold(tx, key), "held")


def resume(tx: Transaction, rules: Rules, key: str) -> None:
    """Gives out the jobs of a key again, and forgets of what it was suspended for."""
    tx.run("DELETE FROM proving_key WHERE key = ?", (key,))
    tx.changes.note(logging.INFO, "a key was resumed", key=key)
    moved = _move(tx, key, PartState.HELD, PartState.QUEUED)
    _tell(tx, rules, moved, "resumed")
    tx.changes.topics.add(WORK)


def hold(tx: Transaction, key: str) -> set[int]:
    """Sets the waiting partitions of a key aside; the numbers of their jobs."""
    return _move(tx, key, PartState.QUEUED, PartState.HELD)


def _move(tx: Transaction, key: str, before: PartState, after: PartState) -> set[int]:
    rows = tx.rows(
        f"UPDATE part SET state = {after:d} WHERE key = ? AND state = {before:d} RETURNING job",
        (key,),
    )
    return {job for (job,) in rows}


def _tell(tx: Transaction, rules: Rules, numbers: set[int], kind: str) -> None:
    now = rules.clock.wall()
    for chunk in in_chunks(sorted(numbers)):
        jobs = read_jobs(tx, chunk, lock=True).values()
        write_events(tx, [next_event(job, now, kind) for job in jobs])
        tx.many(
            "UPDATE job SET events = ? WHERE number = ?", [(job.events, job.number) for job in jobs]
        )
