"""Records about a server and its keys, which clients may import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quod.frozen import frozen


@frozen
class RemoteKey:
    """A key of a server.

    problem: the reason why it cannot be used, or empty. A key with damaged files has no curve, and
        its counts are 0.
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
    """The state of a server.

    state: "starting", "ready", "draining", or "unavailable" while its queue does not answer.
    started: its start time.
    """

    version: str
    state: str
    started: float


@frozen
class ServerStatus(ServerState):
    """The state of a server, and the unfinished jobs of this client.

    document: the answer of ``GET /status``, for operators only.
    """

    jobs: int
    payload_bytes: int
    document: Mapping[str, Any] | None
