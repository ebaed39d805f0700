# Written by `python -m quod.service.protocol.generate` from quod.proto.
import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    QUEUED: _ClassVar[JobState]
    RUNNING: _ClassVar[JobState]
    SUCCEEDED: _ClassVar[JobState]
    FAILED: _ClassVar[JobState]
    CANCELLED: _ClassVar[JobState]
    EXPIRED: _ClassVar[JobState]
JOB_STATE_UNSPECIFIED: JobState
QUEUED: JobState
RUNNING: JobState
SUCCEEDED: JobState
FAILED: JobState
CANCELLED: JobState
EXPIRED: JobState

class Witness(_message.Message):
    __slots__ = ("wtns", "path", "inputs")
    WTNS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    wtns: bytes
    path: str
    inputs: str
    def __init__(self, wtns: _Optional[bytes] = ..., path: _Optional[str] = ..., inputs: _Optional[str] = ...) -> None: ...

class SubmitProofRequest(_message.Message):
    __slots__ = ("key", "witnesses", "idempotency_key", "priority", "deadline")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    key: str
    witnesses: _containers.RepeatedCompositeFieldContainer[Witness]
    idempotency_key: str
    priority: int
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[str] = ..., witnesses: _Optional[_Iterable[_Union[Witness, _Mapping]]] = ..., idempotency_key: _Optional[str] = ..., priority: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SubmitProofsRequest(_message.Message):
    __slots__ = ("proofs",)
    PROOFS_FIELD_NUMBER: _ClassVar[int]
    proofs: _containers.RepeatedCompositeFieldContainer[SubmitProofRequest]
    def __init__(self, proofs: _Optional[_Iterable[_Union[SubmitProofRequest, _Mapping]]] = ...) -> None: ...

class SubmitProofsResponse(_message.Message):
    __slots__ = ("outcomes",)
    class Outcome(_message.Message):
        __slots__ = ("job", "refusal")
        JOB_FIELD_NUMBER: _ClassVar[int]
        REFUSAL_FIELD_NUMBER: _ClassVar[int]
        job: Job
        refusal: Refusal
        def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[SubmitProofsResponse.Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SubmitProofsResponse.Outcome, _Mapping]]] = ...) -> None: ...

class UploadProofRequest(_message.Message):
    __slots__ = ("begin", "piece")
    class Begin(_message.Message):
        __slots__ = ("key", "lengths", "idempotency_key", "priority", "deadline", "inputs")
        KEY_FIELD_NUMBER: _ClassVar[int]
        LENGTHS_FIELD_NUMBER: _ClassVar[int]
        IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_FIELD_NUMBER: _ClassVar[int]
        DEADLINE_FIELD_NUMBER: _ClassVar[int]
        INPUTS_FIELD_NUMBER: _ClassVar[int]
        key: str
        lengths: _containers.RepeatedScalarFieldContainer[int]
        idempotency_key: str
        priority: int
        deadline: _timestamp_pb2.Timestamp
        inputs: bool
        def __init__(self, key: _Optional[str] = ..., lengths: _Optional[_Iterable[int]] = ..., idempotency_key: _Optional[str] = ..., priority: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., inputs: _Optional[bool] = ...) -> None: ...
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    begin: UploadProofRequest.Begin
    piece: bytes
    def __init__(self, begin: _Optional[_Union[UploadProofRequest.Begin, _Mapping]] = ..., piece: _Optional[bytes] = ...) -> None: ...

class AwaitProofRequest(_message.Message):
    __slots__ = ("job", "timeout")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    job: str
    timeout: _duration_pb2.Duration
    def __init__(self, job: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ProveRequest(_message.Message):
    __slots__ = ("proof", "timeout")
    PROOF_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    proof: SubmitProofRequest
    timeout: _duration_pb2.Duration
    def __init__(self, proof: _Optional[_Union[SubmitProofRequest, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class GenerationRequest(_message.Message):
    __slots__ = ("model", "prompt", "messages", "max_tokens", "temperature", "seed", "idempotency_key", "priority", "deadline")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt: str
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    max_tokens: int
    temperature: float
    seed: int
    idempotency_key: str
    priority: int
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., seed: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., priority: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("job", "event")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    job: Job
    event: Event
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "architecture", "context", "vocabulary", "digest", "plan")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    name: str
    architecture: str
    context: int
    vocabulary: int
    digest: str
    plan: str
    def __init__(self, name: _Optional[str] = ..., architecture: _Optional[str] = ..., context: _Optional[int] = ..., vocabulary: _Optional[int] = ..., digest: _Optional[str] = ..., plan: _Optional[str] = ...) -> None: ...

class CancelProofRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class WatchProofRequest(_message.Message):
    __slots__ = ("job", "after")
    JOB_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    job: str
    after: int
    def __init__(self, job: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class ListProofsRequest(_message.Message):
    __slots__ = ("most", "before")
    MOST_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    most: int
    before: str
    def __init__(self, most: _Optional[int] = ..., before: _Optional[str] = ...) -> None: ...

class ListProofsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "client", "key", "state", "priority", "partitions", "remaining", "created", "started", "ended", "deadline", "idempotency_key", "code", "message", "last_event", "results")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    client: str
    key: str
    state: JobState
    priority: int
    partitions: int
    remaining: int
    created: _timestamp_pb2.Timestamp
    started: _timestamp_pb2.Timestamp
    ended: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    idempotency_key: str
    code: str
    message: str
    last_event: int
    results: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., client: _Optional[str] = ..., key: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., priority: _Optional[int] = ..., partitions: _Optional[int] = ..., remaining: _Optional[int] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., last_event: _Optional[int] = ..., results: _Optional[_Iterable[str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "at", "kind", "data")
    class DataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: _timestamp_pb2.Timestamp
    kind: str
    data: _containers.ScalarMap[str, str]
    def __init__(self, number: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., data: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("status", "reason", "message", "retry_after")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    status: str
    reason: str
    message: str
    retry_after: _duration_pb2.Duration
    def __init__(self, status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Status(_message.Message):
    __slots__ = ("version", "state", "started", "jobs", "payload_bytes", "document")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    version: str
    state: str
    started: _timestamp_pb2.Timestamp
    jobs: int
    payload_bytes: int
    document: str
    def __init__(self, version: _Optional[str] = ..., state: _Optional[str] = ..., started: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jobs: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., document: _Optional[str] = ...) -> None: ...

class PreloadKeyRequest(_message.Message):
    __slots__ = ("key", "worker", "timeout")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    key: str
    worker: str
    timeout: _duration_pb2.Duration
    def __init__(self, key: _Optional[str] = ..., worker: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PreloadKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvictKeyRequest(_message.Message):
    __slots__ = ("key", "worker")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    key: str
    worker: str
    def __init__(self, key: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class EvictKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeKeyRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class ResumeKeyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeWorkerRequest(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: str
    def __init__(self, worker: _Optional[str] = ...) -> None: ...

class ResumeWorkerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("identity", "names", "curve", "constraints", "public", "bytes", "takes_inputs", "problem")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CURVE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKES_INPUTS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    identity: str
    names: _containers.RepeatedScalarFieldContainer[str]
    curve: str
    constraints: int
    public: int
    bytes: int
    takes_inputs: bool
    problem: str
    def __init__(self, identity: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., curve: _Optional[str] = ..., constraints: _Optional[int] = ..., public: _Optional[int] = ..., bytes: _Optional[int] = ..., takes_inputs: _Optional[bool] = ..., problem: _Optional[str] = ...) -> None: ...
