"""What clients ask for and what they are told: plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from quod.errors import InputError, ServiceError
from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.queue.records import HIGHEST_PRIORITY, JobRecord, JobState
from quod.service.queue.validation import checked_name, checked_time
from quod.validation import shown_kind, whole_number

Inputs = Mapping[str, Any]

_SOURCES: Final[Mapping[str, type]] = {"wtns": bytes, "path": str, "inputs": Mapping}


@frozen
class ProofRequest:
    """A proof that is wanted, of one partition or of several.

    Exactly one of these is given, and a list of such for several partitions: `wtns`, witnesses in
    the format .wtns; `path`, where such are, below the root that the server allows this client;
    `inputs` of the circuit by name, from which its own program computes the witness.

    A second submission with the same `idempotency_key` is the same job. Higher priorities (0 to 9)
    come first. `deadline` is absolute, in seconds since 1970.
    """

    key: str
    wtns: bytes | Sequence[bytes] | None = None
    path: str | Sequence[str] | None = None
    inputs: Annotated[Inputs | Sequence[Inputs] | None, Wire(message=None)] = None
    idempotency_key: str = ""
    priority: int = 0
    deadline: float | None = None

    def __post_init__(self) -> None:
        checked_name("the key", self.key)
        checked_name("the idempotency key", self.idempotency_key, empty=True)
        priority = whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY)
        self.__dict__.update(priority=priority)
        checked_time("the deadline", self.deadline)
        count = sum(getattr(self, name) is not None for name in _SOURCES)
        if count != 1:
            raise InputError(f"give one of wtns, path and inputs, not {count} of them")
        kind = _SOURCES[self.source]
        for one in self.witnesses:
            if not isinstance(one, kind):
                expected = kind.__name__.lower()
                raise InputError(f"{self.source} must be {expected}, not {shown_kind(one)}")

    @property
    def witnesses(self) -> list[Any]:
        """What was given, one a partition."""
        value = getattr(self, self.source)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    @property
    def source(self) -> str:
        """The name of the field that has the witnesses."""
        return next(name for name in _SOURCES if getattr(self, name) is not None)


@frozen
class RemoteJob(JobRecord):
    """A job of a server as it was when it was asked for.

    `key` is an identity. `results` has for each partition of one that succeeded
    ``{"proof": ..., "publicSignals": ...}`` as snarkjs writes them.
    """

    results: tuple[Mapping[str, Any], ...]

    def require_results(self) -> tuple[Mapping[str, Any], ...]:
        """The results; `ServiceError` with the reason unless the job has succeeded."""
        if self.state is not JobState.SUCCEEDED:
            why = f": {self.code}: {self.message}" if self.code else ""
            raise ServiceError(f"the job {self.id} is {self.state}{why}")
        return self.results

    @property
    def proof(self) -> Mapping[str, Any]:
        """The proof of a job of one partition, which `VerifyingKey.verify` takes.

        `ServiceError` with the reason unless the job has succeeded, `InputError` if it has several
        proofs, which are in `results`.
        """
        proof: Mapping[str, Any] = self._result()["proof"]
        return proof

    @property
    def public(self) -> Sequence[str]:
        """The public inputs of that proof, as decimal strings; raises as `proof` does."""
        public: Sequence[str] = self._result()["publicSignals"]
        return public

    def _result(self) -> Mapping[str, Any]:
        results = self.require_results()
        if len(results) != 1:
            raise InputError(f"the job {self.id} has {len(results)} proofs; take them from results")
        return results[0]
