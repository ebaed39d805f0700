"""What a server tells of itself and of its keys: records that clients may load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quod.frozen import frozen


@frozen
class RemoteKey:
    """A key of a server; `problem` says what is wrong with it, or is empty.

    A key whose files are not sound has no curve, and its counts are 0.
    """

    identity: str
    names: tuple[str, ...]
    curve: str
    constraints: int
    public: int
    bytes: int
    takes_inputs: bool
    problem: str


@frozen
class ServerState:
    """A server: `state` is "starting", "ready", "draining" or "unavailable".

    It is unavailable while its queue does not answer. `started` is its start time.
    """

    version: str
    state: str
    started: float


@frozen
class ServerStatus(ServerState):
    """A server and what this client has there that has not ended.

    `document` is for operators: queue, workers, keys and jobs, as ``GET /status`` has them.
    """

    jobs: int
    payload_bytes: int
    document: Mapping[str, Any] | None
