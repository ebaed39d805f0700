"""A server's state, keys and models; clients import them without the server's modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quod.frozen import frozen


@frozen
class RemoteKey:
    """A proving key of a server.

    identity: the digest that identifies the key.
    constraints, public: the numbers of constraints and of public inputs.
    bytes: the size of the key's file.
    takes_inputs: whether the server can compute witnesses from circuit inputs.
    problem: the reason why the key cannot be used, or empty. A key with damaged files has no curve,
        and its counts are 0.
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
class RemoteModel:
    """A language model of a server.

    context: the number of positions that fit, of prompt and answer together.
    vocabulary: the number of tokens.
    digest: the SHA-256 of its file.
    plan: the identity of its plan; the same digest, plan, prompt and seed give the same tokens.
    """

    name: str
    architecture: str
    context: int
    vocabulary: int
    digest: str
    plan: str


@frozen
class ServerState:
    """The state of a server.

    state: "starting", "ready", "draining", or "unavailable" while its queue does not answer.
    started: the start time in seconds since 1970.
    """

    version: str
    state: str
    started: float


@frozen
class ServerStatus(ServerState):
    """The state of a server, and the unfinished jobs of this client.

    jobs, payload_bytes: the number of these jobs, and the size of their payloads.
    document: the answer of ``GET /status``; None unless the client is an operator.
    """

    jobs: int
    payload_bytes: int
    document: Mapping[str, Any] | None
