"""Who asks: clients by their tokens, of which only digests are kept, and what each may do."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from quod.frozen import frozen
from quod.service.errors import PermissionDeniedError, UnauthenticatedError
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.wording import alternatives

LOCAL: Final = "local"
"""The client of the Unix socket, to which nobody else can connect, unless it sends a token."""

ANONYMOUS: Final = "anonymous"
"""Whoever has no token where none is asked for (`--insecure-no-auth`)."""

_PREFIX: Final = "sha256:"
_HASHED: Final = re.compile(r"sha256:[0-9a-f]{64}")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{16,512}=*)", re.IGNORECASE)
_TOKEN_BYTES: Final = 32


class Role(StrEnum):
    """What a client may do: submit and follow its own jobs, look after the server, read metrics."""

    CLIENT = "client"
    OPERATOR = "operator"
    METRICS = "metrics"


@frozen
class Client:
    """A client; `keys` are names or identities that it may use, None for all.

    Without a `root` it may not name files.
    """

    name: str
    roles: frozenset[Role]
    keys: frozenset[str] | None = None
    priority: int = HIGHEST_PRIORITY
    root: str | None = None

    def require(self, *roles: Role) -> None:
        """Raise `PermissionDeniedError` unless the client has one of the roles."""
        if self.roles.isdisjoint(roles):
            raise PermissionDeniedError(
                f"this needs the role {alternatives(roles)}, which {self.name} does not have"
            )


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hashed_token(token: str) -> str:
    """What the configuration keeps of a token.

    One SHA-256: tokens are random, so that there is nothing to be guessed slowly.
    """
    return _PREFIX + hashlib.sha256(token.encode()).hexdigest()


def is_hashed(text: object) -> bool:
    """Whether a text is what `hashed_token` gives."""
    return isinstance(text, str) and _HASHED.fullmatch(text) is not None


class Clients:
    """All clients, by their tokens."""

    def __init__(
        self, tokens: Iterable[tuple[str, Client]], *, local: Client, anonymous: Client | None
    ) -> None:
        # Looked up by digest, so that how long it takes says nothing of the token.
        self._by_digest = dict(tokens)
        self._local, self._anonymous = local, anonymous

    def client(self, authorization: str | None, *, is_local: bool) -> Client:
        """Who sends a request with this header ``Authorization``; `UnauthenticatedError`.

        A wrong token is refused also where none is needed: it was meant for something.
        """
        if authorization is None:
            if is_local:
                return self._local
            if self._anonymous is not None:
                return self._anonymous
            raise UnauthenticatedError("this takes a token: Authorization: Bearer TOKEN")
        match = _BEARER.fullmatch(authorization.strip())
        found = self._by_digest.get(hashed_token(match[1])) if match else None
        if found is None:
            raise UnauthenticatedError("the token is nobody's")
        return found
