"""The models of request bodies; validation errors never show values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from starlette.requests import Request

from quod import shallow_json
from quod.errors import InputError, QuodError
from quod.formats.strict_json import CIRCUIT_INPUT
from quod.service.payload import PayloadKind
from quod.service.queue.records import HIGHEST_PRIORITY, MAX_PARTITIONS
from quod.service.server.budget import Reservation, owner_of
from quod.service.server.clients import Client, Role
from quod.service.server.http.guard import BYTES
from quod.service.server.intake import MAX_VALUES, Intake
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.submission import read_submissions

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_OBJECT: Final[dict[str, Any]] = {
    "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}]
}


class StrictBody(BaseModel):
    """A body that rejects unknown fields; errors do not show values."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def merged_key(body: str, header: str | None) -> str:
    """Return the idempotency key of a body and a header; InputError if they differ."""
    if header and body and header != body:
        raise InputError("header and body have different keys", section="idempotency_key")
    return body or header or ""


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError("must be base64") from None


def _object_text(value: object) -> str | None:
    # The worker that computes the witness parses it.
    if value is None or (isinstance(value, shallow_json.Text) and value.startswith("{")):
        return value
    raise ValueError("must be an object")


class WitnessBody(StrictBody):
    """The witness of one partition: exactly one of these fields."""

    inputs: Annotated[str | None, BeforeValidator(_object_text), WithJsonSchema(_OBJECT)] = Field(
        None, description="Inputs of the circuit; numbers of any size, or text of such."
    )
    path: str | None = Field(None, description="A .wtns file below the root of the client.")
    wtns: Annotated[bytes, BeforeValidator(_decoded)] | None = Field(
        None, description="A .wtns file in base64."
    )

    def kind_and_body(self) -> tuple[PayloadKind, bytes] | None:
        """Return the kind and the body, or None; raises InputError if several are given."""
        bodies: list[tuple[PayloadKind, bytes]] = []
        if self.inputs is not None:
            bodies.append((PayloadKind.INPUTS, self.inputs.encode(errors="replace")))
        if self.path is not None:
            bodies.append((PayloadKind.PATH, self.path.encode(errors="replace")))
        if self.wtns is not None:
            bodies.append((PayloadKind.WTNS, self.wtns))
        if len(bodies) > 1:
            raise InputError(
                "a witness must be exactly one of inputs, path and wtns", section="witnesses"
            )
        return bodies[0] if bodies else None


class ProofBody(WitnessBody):
    """A proof request, for one partition or several (`witnesses`)."""

    key: str = Field(description="Identity, NAME or NAME:TAG.")
    witnesses: list[WitnessBody] = Field([], max_length=MAX_PARTITIONS)
    priority: int = Field(0, ge=0, le=HIGHEST_PRIORITY)
    deadline: float | None = Field(None, description="Seconds since 1970.")
    idempotency_key: str = Field("", description="Or the header Idempotency-Key.")

    def to_request(self, header: str | None = None) -> CompleteRequest:
        """Convert to a request; `header` is the idempotency key of the HTTP header."""
        idempotency_key = merged_key(self.idempotency_key, header)
        optional_bodies = [witness.kind_and_body() for witness in (self, *self.witnesses)]
        kinds_and_bodies = [body for body in optional_bodies if body is not None]
        if (
            not kinds_and_bodies
            or len(kinds_and_bodies) < len(self.witnesses)
            or (self.witnesses and optional_bodies[0])
        ):
            raise InputError(
                "give inputs, path or wtns, or witnesses with one of these each",
                section="witnesses",
            )
        kinds = {kind for kind, _ in kinds_and_bodies}
        if len(kinds) > 1:
            raise InputError("all witnesses of a job must have the same kind", section="witnesses")
        bodies = tuple(body for _, body in kinds_and_bodies)
        proof = ProofRequest(
            self.key, kinds.pop(), tuple(map(len, bodies)), idempotency_key, self.priority,
            self.deadline,
        )  # fmt: skip
        return CompleteRequest(proof, bodies)


class ProveBody(ProofBody):
    """A proof request, and the timeout of waiting for its end."""

    timeout: float | None = Field(None, ge=0, description="Seconds.")

    def to_timed_request(self, header: str | None) -> tuple[CompleteRequest, float | None]:
        """Convert to a request and its timeout."""
        return self.to_request(header), self.timeout


class ManyBody(StrictBody):
    """Up to 1,000 proofs."""

    proofs: list[ProofBody]

    def to_request(self) -> list[CompleteRequest | QuodError]:
        """Convert to requests, or the error of each that is invalid."""
        return read_submissions(self.proofs, ProofBody.to_request)


class KeyBody(StrictBody):
    """The parameters of an action on a key, on all workers or one."""

    worker: str = ""
    timeout: float | None = Field(None, ge=0)


def body_schema(model: type[BaseModel], *, raw: bool = False) -> dict[str, Any]:
    """Return the OpenAPI description of a body that a handler reads itself."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    content: dict[str, Any] = {
        "application/json": {"schema": _inline_references(schema, definitions)}
    }
    if raw:
        content[BYTES] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


def _inline_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """Replace the references of a schema by their targets; none is recursive."""
    if isinstance(schema, list):
        return [_inline_references(node, definitions) for node in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline_references(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline_references(node, definitions) for name, node in schema.items()}


@contextmanager
def admitted(
    request: Request, intake: Intake, client: Client, *roles: Role
) -> Iterator[Reservation]:
    """Check the client's role and reserve memory for the body of its request."""
    client.require(*roles)
    peer = request.client.host if request.client is not None else "unix:"
    with intake.budget.of(owner_of(client, peer)) as reservation:
        yield reservation


async def read_json(
    request: Request, intake: Intake, reservation: Reservation, model: type[M],
    use: Callable[[M], T],
) -> T:  # fmt: skip
    """Read a request's body as a model and return what `use` makes of it.

    Raises `InputError` that names the first wrong field. `use` runs in the thread that parses: the
    text of a model may take four times the memory of its body, and no model outlives the parsing.
    """
    read = partial(_parse_and_use, model, use)
    return await intake.parse(await intake.body(request, reservation), read)


def _parse_and_use(model: type[M], use: Callable[[M], T], body: bytearray) -> T:
    return use(_parse_model(model, body))


def _parse_model(model: type[M], body: bytearray) -> M:
    if sum(map(body.count, (b",", b"[", b"{"))) > CIRCUIT_INPUT.max_values:
        raise InputError(
            f"the request has more than {CIRCUIT_INPUT.max_values} values; split it into several"
        )
    try:
        document = shallow_json.load(body, raw=("inputs",), max_values=MAX_VALUES)
    except (ValueError, RecursionError) as error:
        # Messages of the parser contain positions, those of shallow_json no values.
        reason = f" ({error})" if type(error) is ValueError else ""
        raise InputError(f"the body is not JSON{reason}") from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        field_path = ".".join(str(part) for part in first["loc"])
        reason_text = "unknown field" if first["type"] == "extra_forbidden" else first["msg"]
        raise InputError(
            reason_text.removeprefix("Value error, "), section=field_path or None
        ) from None
