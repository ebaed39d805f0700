"""Records and errors as JSON, for the messages between a server and its workers.

Whatever cannot be read back is an `InputError`: the other process is none of ours, or broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from quod import errors
from quod.errors import InputError, QuodError, ServiceError
from quod.frozen import field_names, fields_of
from quod.service import errors as service_errors
from quod.service.keys import CacheStatus, KeyUse, Tier
from quod.service.queue import Lease
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.settings import WorkerSettings

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

HUNG = 70
"""The exit code of a worker's process whose device hangs."""

Json = Any

_BODY = "body"

_ERRORS: dict[str, type[QuodError]] = {
    name: found
    for module in (errors, service_errors)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, QuodError)
}
# What their messages are made of, and what callers look at.
_ATTRIBUTES = ("retry_seconds", "parts", "budget", "path")


def encode(value: object) -> Json:
    """A record, or what records hold, as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if field_names(type(value)) is not None:
        return {name: encode(one) for name, one in fields_of(value).items()}
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    return value


def encode_error(error: BaseException) -> Json:
    """An error of ours whole; of others only what kind it is, for its text may hold anything."""
    if not isinstance(error, QuodError):
        return {"kind": "ServiceError", "message": f"{type(error).__name__} in the other process"}
    kind = next((name for name in _names(error) if name in _ERRORS), "ServiceError")
    told = {name: getattr(error, name) for name in _ATTRIBUTES if hasattr(error, name)}
    return {"kind": kind, "message": str(error), **told}


def decode_error(value: Json) -> QuodError:
    """The error again, without its causes."""
    found = dict(_mapping(value))
    kind = _ERRORS.get(found.pop("kind", ""), ServiceError)
    message = found.pop("message", "")
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update({name: found[name] for name in _ATTRIBUTES if name in found})
    return error


def encode_lease(lease: Lease) -> Json:
    """A lease without its body."""
    return {name: one for name, one in vars(lease).items() if name != _BODY}


def lease_of(value: Json, body: bytes = b"") -> Lease:
    return _record(Lease, {**_mapping(value), _BODY: body})


def settings_of(value: Json) -> WorkerSettings:
    found = dict(_mapping(value))
    found["warm"] = tuple(found.get("warm", ()))
    return _record(WorkerSettings, found)


def stage_record_of(value: Json) -> StageRecord:
    found = _mapping(value)
    return _record(StageRecord, {**found, "stage": _member(Stage, found.get("stage"))})


def status_of(value: Json) -> WorkerStatus:
    found = _mapping(value)
    keys = _mapping(found.get("keys"))
    cache = {
        **keys,
        "budgets": _by_tier(keys.get("budgets")),
        "used": _by_tier(keys.get("used")),
        "keys": tuple(
            _record(KeyUse, {**_mapping(one), "tier": _member(Tier, _mapping(one).get("tier"))})
            for one in _list(keys.get("keys"))
        ),
    }
    jobs = {job: _member(Stage, stage) for job, stage in _mapping(found.get("jobs")).items()}
    state = _member(WorkerState, found.get("state"))
    own = {
        **found, "jobs": jobs, "state": state, "keys": _record(CacheStatus, cache),
        "wanted": tuple(_list(found.get("wanted"))),
    }  # fmt: skip
    return _record(WorkerStatus, own)


def _names(error: QuodError) -> list[str]:
    return [one.__name__ for one in type(error).__mro__]


def _record(kind: type[T], value: Json) -> T:
    names = field_names(kind)
    found = _mapping(value)
    if names is None or set(found) != set(names):
        raise InputError(f"a message has no {kind.__name__}")
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise InputError(f"a message has a wrong {kind.__name__}") from error


def _member(kind: type[E], value: Json) -> E:
    try:
        return kind(value)
    except ValueError as error:
        raise InputError(f"a message has no {kind.__name__}") from error


def _by_tier(value: Json) -> dict[Tier, int]:
    return {_member(Tier, tier): count for tier, count in _mapping(value).items()}


def _mapping(value: Json) -> Mapping[str, Json]:
    if isinstance(value, dict):
        return value
    raise InputError("a message has no object where one should be")


def _list(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    raise InputError("a message has no list where one should be")
