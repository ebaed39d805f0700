"""What clients ask to be proven, as gRPC and HTTP both hand it in, and its digest."""

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
    """A job that is wanted: `lengths` are the bytes of each partition's body, as they are sent."""

    key: str
    kind: PayloadKind
    lengths: tuple[int, ...]
    idempotency_key: str = ""
    priority: int = 0
    deadline: float | None = None

    def __post_init__(self) -> None:
        if not self.key:
            raise InputError("a proof takes a key", section="key")
        priority = whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY)
        self.__dict__.update(priority=priority)

    def digest(self, bodies: Sequence[bytes] = ()) -> Any:
        """A SHA-256 that has begun with all but the bodies, or with these as well.

        Two requests of one digest want the same; of a path that is what the client calls it.
        """
        found = hashlib.sha256()
        own = [self.key, int(self.kind), self.priority, self.deadline, self.lengths]
        found.update(json.dumps(own).encode() + b"\n")
        for body in bodies:
            found.update(body)
        return found


@frozen
class WholeRequest:
    """A request with the bodies of its partitions: witnesses, paths as text, or JSON."""

    proof: ProofRequest
    bodies: tuple[bytes, ...]
