"""What requests hold: read within a limit, checked against their models, never shown in errors."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request

from quod.errors import InputError
from quod.service.payload import PayloadKind
from quod.service.queue.records import HIGHEST_PRIORITY, MOST_PARTITIONS
from quod.service.server.config import RequestLimits
from quod.service.server.requests import WholeRequest, whole_request

M = TypeVar("M", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError("must be base64") from None


class WitnessBody(_Body):
    """The witness of one partition: one of these."""

    inputs: dict[str, Any] | None = Field(
        None, description="Inputs of the circuit; numbers of any size, or text of such."
    )
    path: str | None = Field(None, description="A .wtns file below the root of the client.")
    wtns: Annotated[bytes, BeforeValidator(_decoded)] | None = Field(
        None, description="A .wtns file in base64."
    )

    def own(self) -> tuple[PayloadKind, bytes] | None:
        """The kind and the body, if there is one; `InputError` if there are several."""
        found: list[tuple[PayloadKind, bytes]] = []
        if self.inputs is not None:
            try:
                text = json.dumps(self.inputs, allow_nan=False)
            except ValueError:
                raise InputError("inputs are finite numbers", section="inputs") from None
            found.append((PayloadKind.INPUTS, text.encode()))
        if self.path is not None:
            found.append((PayloadKind.PATH, self.path.encode(errors="replace")))
        if self.wtns is not None:
            found.append((PayloadKind.WTNS, self.wtns))
        if len(found) > 1:
            raise InputError("a witness is one of inputs, path and wtns", section="witnesses")
        return found[0] if found else None


class ProofBody(WitnessBody):
    """A proof that is wanted: of one partition, or of several (`witnesses`)."""

    key: str = Field(description="Identity, NAME or NAME:TAG.")
    witnesses: list[WitnessBody] = Field([], max_length=MOST_PARTITIONS)
    priority: int = Field(0, ge=0, le=HIGHEST_PRIORITY)
    deadline: float | None = Field(None, description="Seconds since 1970.")
    idempotency_key: str = Field("", description="Or the header Idempotency-Key.")

    def wanted(self, header: str | None = None) -> WholeRequest:
        """The request that this is."""
        if header and self.idempotency_key and header != self.idempotency_key:
            raise InputError("header and body have different ones", section="idempotency_key")
        given = [one.own() for one in (self, *self.witnesses)]
        found = [one for one in given if one is not None]
        if not found or len(found) < len(self.witnesses) or (self.witnesses and given[0]):
            raise InputError(
                "give inputs, path or wtns, or witnesses with one of these each",
                section="witnesses",
            )
        kinds = {kind for kind, _ in found}
        if len(kinds) > 1:
            raise InputError("all witnesses of a job are of one kind", section="witnesses")
        bodies = [body for _, body in found]
        return whole_request(
            self.key, kinds.pop(), bodies, self.idempotency_key or header or "", self.priority,
            self.deadline,
        )  # fmt: skip


class ProveBody(ProofBody):
    """The same, and how long to wait for its end."""

    timeout: float | None = Field(None, ge=0, description="Seconds.")


class ManyBody(_Body):
    """Up to 1,000 proofs."""

    proofs: list[ProofBody]


class KeyBody(_Body):
    """What is done with a key, on all workers or one."""

    worker: str = ""
    timeout: float | None = Field(None, ge=0)


async def read_json(request: Request, model: type[M], limits: RequestLimits) -> M:
    """The body of a request as a model; `InputError` says where it is none."""
    pieces = []
    async for piece in limited(request, limits.message_bytes, limits.idle_seconds):
        pieces.append(piece)
    try:
        return model.model_validate_json(b"".join(pieces))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        what = "there is no such field" if first["type"] == "extra_forbidden" else first["msg"]
        if first["type"] == "json_invalid":
            what = "the body is no JSON"
        raise InputError(what, section=place or None) from None


async def limited(request: Request, most: int, idle: float) -> AsyncIterator[bytes]:
    """The body of a request in pieces; `InputError` once it is longer, or stops coming."""
    too_long = f"the body is longer than {most} bytes"
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise InputError(too_long)
    came, stream = 0, request.stream()
    while True:
        try:
            async with asyncio.timeout(idle):
                piece = await anext(stream, None)
        except TimeoutError:
            raise InputError(f"nothing came for {idle:g} s") from None
        except ClientDisconnect:
            raise InputError("the client went away before its request was whole") from None
        if piece is None:
            return
        came += len(piece)
        if came > most:
            raise InputError(too_long)
        if piece:
            yield piece
