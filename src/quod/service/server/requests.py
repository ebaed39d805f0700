"""Proof requests in the common form of gRPC and HTTP, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.payload import PayloadKind
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.validation import whole_number


@frozen
class ProofRequest:
    """A request for a job.

    lengths: the bytes of each partition's body as sent.
    """

    key: str
    kind: PayloadKind
    lengths: tuple[int, ...]
    idempotency_key: str = ""
    priority: int = 0
    deadline: float | None = None

    def __post_init__(self) -> None:
        if not self.key:
            raise InputError("the request names no key; give one", section="key")
        priority = whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY)
        self.__dict__.update(priority=priority)

    def digest(self, bodies: Sequence[bytes] = ()) -> Any:
        """Return a SHA-256 object over all fields, and over `bodies` if given.

        Requests with equal digests are the same request. A body with a path is hashed as the client
        wrote it.
        """
        hasher = hashlib.sha256()
        request_fields = [self.key, int(self.kind), self.priority, self.deadline, self.lengths]
        hasher.update(json.dumps(request_fields).encode() + b"\n")
        for body in bodies:
            hasher.update(body)
        return hasher


@frozen
class CompleteRequest:
    """A request with the bodies of its partitions: witnesses, paths as text, or JSON."""

    proof: ProofRequest
    bodies: tuple[bytes, ...]
