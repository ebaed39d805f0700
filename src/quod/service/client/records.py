"""The records of a client: proof requests and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from quod.errors import InputError, ServiceError
from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.queue.records import HIGHEST_PRIORITY, Event, JobRecord, JobState
from quod.service.queue.validation import checked_name, checked_time
from quod.validation import shown_kind, whole_number

Inputs = Mapping[str, Any]

_SOURCES: Final[Mapping[str, type]] = {"wtns": bytes, "path": str, "inputs": Mapping}


@frozen
class ProofRequest:
    """A request for a proof job, which has one partition (a witness and its proof) or several.

    key: the name or identity of the proving key.
    Exactly one of the next three fields is required; a list has an item for each partition:
    wtns: a witness in the .wtns format.
    path: the path of a .wtns file below the root that the server assigns to this client.
    inputs: circuit inputs by name, from which the server computes the witness.
    idempotency_key: a second submission with the same key returns the first job; "" for none.
    priority: 0 to 9; jobs with a higher priority run first.
    deadline: the time after which the job expires, in seconds since 1970.
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
            raise InputError(f"give exactly one of wtns, path and inputs, not {count}")
        kind = _SOURCES[self.source]
        for witness in self.witnesses:
            if not isinstance(witness, kind):
                expected = kind.__name__.lower()
                raise InputError(f"{self.source} must be {expected}, not {shown_kind(witness)}")

    @property
    def witnesses(self) -> list[Any]:
        """The witness, path or inputs of each partition."""
        value = getattr(self, self.source)
        return list(value) if isinstance(value, (list, tuple)) else [value]

    @property
    def source(self) -> str:
        """The name of the field that is not None: wtns, path or inputs."""
        return next(name for name in _SOURCES if getattr(self, name) is not None)


@frozen
class Tokens:
    """Tokens of a text, as they are generated.

    first: the number of tokens before them.
    text: their text; a character whose bytes are incomplete is a part of later text.
    """

    first: int
    tokens: tuple[int, ...]
    text: str


def tokens_of(item: RemoteJob | Event) -> Tokens | None:
    """Return the tokens of an item of a stream; None if it has none.

    Raises ServiceError with the reason for a job that has ended without success.
    """
    if isinstance(item, RemoteJob):
        if item.state.ended:
            item.require_results()
        return None
    if item.kind != "progress":
        return None
    data = item.data
    tokens = tuple(map(int, str(data["tokens"]).split()))
    return Tokens(int(data["first"]), tokens, str(data["text"]))


@frozen
class RemoteJob(JobRecord):
    """A snapshot of a job of a server.

    key: the identity of the proving key.
    results: a document ``{"proof": ..., "publicSignals": ...}`` in snarkjs format for each
        partition, or ``{"text": ..., "tokens": ...}``; empty unless the job has succeeded.
    """

    results: tuple[Mapping[str, Any], ...]

    def require_results(self) -> tuple[Mapping[str, Any], ...]:
        """Return the results; raises ServiceError with the reason unless the job succeeded."""
        if self.state is not JobState.SUCCEEDED:
            reason = f": {self.code}: {self.message}" if self.code else ""
            raise ServiceError(f"the job {self.id} is {self.state}{reason}")
        return self.results

    @property
    def proof(self) -> Mapping[str, Any]:
        """The proof of a job with one partition, for `VerifyingKey.verify`.

        Raises ServiceError with the reason unless the job succeeded, InputError if the job has
        several partitions; `results` has their proofs.
        """
        proof: Mapping[str, Any] = self._value("proof")
        return proof

    @property
    def public(self) -> Sequence[str]:
        """The public inputs of the proof as decimal strings; raises as `proof` does."""
        public: Sequence[str] = self._value("publicSignals")
        return public

    @property
    def text(self) -> str:
        """The text of a job that generated one.

        Raises ServiceError with the reason unless the job succeeded, InputError for a proof.
        """
        text: str = self._value("text")
        return text

    def _value(self, name: str) -> Any:
        result = self._result()
        if name not in result:
            what = "text" if "text" in result else "a proof"
            raise InputError(f"the result of the job {self.id} is {what}; it has no {name}")
        return result[name]

    def _result(self) -> Mapping[str, Any]:
        results = self.require_results()
        if len(results) != 1:
            raise InputError(f"the job {self.id} has {len(results)} proofs; read them from results")
        return results[0]
