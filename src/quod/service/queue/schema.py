"""The database tables, and the migrations between their versions.

`{blob}`, `{strict}` and `{rowless}` stand for terms that differ between the databases. Times are
microseconds since 1970. A released migration is never changed: add a new one.
"""

from __future__ import annotations

APPLICATION_ID = 0x51756F64
"""The application id that marks an SQLite file as a Quod queue ("Quod")."""

_FIRST = (
    # state: JobState. identity: client and idempotency key in one column, so that no index of the
    # client alone looks as good to Postgres. keep_until: by Clock.stamp, when an ended job may be
    # collected.
    """CREATE TABLE job (
        number BIGINT PRIMARY KEY, nonce TEXT NOT NULL, client TEXT NOT NULL, identity TEXT,
        digest {blob} NOT NULL, key TEXT NOT NULL, priority BIGINT NOT NULL, deadline BIGINT,
        partitions BIGINT NOT NULL, remaining BIGINT NOT NULL, payload TEXT NOT NULL,
        payload_bytes BIGINT NOT NULL, state BIGINT NOT NULL, created BIGINT NOT NULL,
        started BIGINT, ended BIGINT, keep_until BIGINT, code TEXT NOT NULL, message TEXT NOT NULL,
        events BIGINT NOT NULL, stages BIGINT NOT NULL
    ){strict}""",
    "CREATE UNIQUE INDEX job_identity ON job (identity) WHERE identity IS NOT NULL",
    "CREATE INDEX job_client ON job (client, number)",
    "CREATE INDEX job_deadline ON job (deadline) WHERE state < 2 AND deadline IS NOT NULL",
    "CREATE INDEX job_keep ON job (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX job_open ON job (number, payload) WHERE state < 2",
    # state: PartState. renewals increase under one token; the reaper compares them.
    """CREATE TABLE part (
        job BIGINT NOT NULL, partition BIGINT NOT NULL, key TEXT NOT NULL, priority BIGINT NOT NULL,
        state BIGINT NOT NULL, token BIGINT NOT NULL, attempts BIGINT NOT NULL,
        renewals BIGINT NOT NULL, stage TEXT NOT NULL, worker TEXT NOT NULL, started BIGINT,
        ended BIGINT, result {blob}, PRIMARY KEY (job, partition)
    ){rowless}""",
    "CREATE INDEX part_queued ON part (priority DESC, job, partition) WHERE state = 0",
    "CREATE INDEX part_queued_key ON part (key, priority DESC, job, partition) WHERE state = 0",
    "CREATE INDEX part_held ON part (key) WHERE state = 1",
    "CREATE INDEX part_running ON part (job, partition) WHERE state = 2",
    """CREATE TABLE attempt (
        job BIGINT NOT NULL, partition BIGINT NOT NULL, token BIGINT NOT NULL, worker TEXT NOT NULL,
        started BIGINT NOT NULL, ended BIGINT NOT NULL, outcome BIGINT NOT NULL,
        code TEXT NOT NULL, message TEXT NOT NULL, PRIMARY KEY (job, partition, token)
    ){rowless}""",
    """CREATE TABLE event (
        job BIGINT NOT NULL, number BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL,
        data TEXT NOT NULL, PRIMARY KEY (job, number)
    ){rowless}""",
    # The usage of a client is the sum over its stripes, so that processes count without lock
    # contention.
    """CREATE TABLE usage (
        client TEXT NOT NULL, stripe BIGINT NOT NULL, jobs BIGINT NOT NULL,
        payload_bytes BIGINT NOT NULL, kept BIGINT NOT NULL, PRIMARY KEY (client, stripe)
    ){rowless}""",
    """CREATE TABLE proving_key (
        key TEXT PRIMARY KEY, suspended BIGINT NOT NULL, reason TEXT NOT NULL,
        losses BIGINT NOT NULL, last_lost BIGINT NOT NULL
    ){strict}""",
)

# Small payloads, in SQLite only: Postgres does not overwrite its log and dead rows.
_SECOND = ("CREATE TABLE payload (job BIGINT PRIMARY KEY, body {blob} NOT NULL){strict}",)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND)
"""The statements of the migration from version i to i + 1, one transaction each."""


def statements(step: tuple[str, ...], *, sqlite: bool) -> list[str]:
    """Return the statements of a migration in the SQL dialect of one database."""
    words = (
        {"blob": "BLOB", "strict": " STRICT", "rowless": " STRICT, WITHOUT ROWID"}
        if sqlite
        else {"blob": "BYTEA", "strict": "", "rowless": ""}
    )
    commands = [template.format_map(words) for template in step]
    # STRICT tables do not support BIGINT, and only INTEGER PRIMARY KEY aliases the rowid.
    return [command.replace("BIGINT", "INTEGER") for command in commands] if sqlite else commands
