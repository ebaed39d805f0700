"""Authentication and authorisation of clients by tokens, which are stored as digests."""

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
"""The client of the Unix socket, which only this user can connect to, without a token."""

ANONYMOUS: Final = "anonymous"
"""A caller without a token where none is required (`--insecure-no-auth`)."""

_PREFIX: Final = "sha256:"
_HASHED: Final = re.compile(r"sha256:[0-9a-f]{64}")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{16,512}=*)", re.IGNORECASE)
_TOKEN_BYTES: Final = 32


class Role(StrEnum):
    """A role: submit and follow own jobs, operate the server, or read metrics."""

    CLIENT = "client"
    OPERATOR = "operator"
    METRICS = "metrics"


@frozen
class Client:
    """A client.

    keys: the names or identities of keys that it may use; None for all.
    priority: the highest priority it may request.
    root: the folder below which it may name files; None if it may not.
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
                f"this call needs the role {alternatives(roles)}, which {self.name} does not have"
            )


def new_token() -> str:
    """Generate a token of 256 random bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hashed_token(token: str) -> str:
    """Hash a token for the configuration.

    A single SHA-256 suffices: tokens are random, so they cannot be guessed.
    """
    return _PREFIX + hashlib.sha256(token.encode()).hexdigest()


def is_hashed(text: object) -> bool:
    """Report whether a value has the form of a hashed token."""
    return isinstance(text, str) and _HASHED.fullmatch(text) is not None


class Clients:
    """All clients by their tokens."""

    def __init__(
        self, tokens: Iterable[tuple[str, Client]], *, local: Client, anonymous: Client | None
    ) -> None:
        # Lookup by digest, so that its duration reveals nothing about the token.
        self._by_digest = dict(tokens)
        self._local, self._anonymous = local, anonymous

    def client(self, authorization: str | None, *, is_local: bool) -> Client:
        """Authenticate a request by its ``Authorization`` header; raises UnauthenticatedError.

        A wrong token is refused even where none is required.
        """
        if authorization is None:
            if is_local:
                return self._local
            if self._anonymous is not None:
                return self._anonymous
            raise UnauthenticatedError("a token is required: Authorization: Bearer TOKEN")
        match = _BEARER.fullmatch(authorization.strip())
        authenticated = self._by_digest.get(hashed_token(match[1])) if match else None
        if authenticated is None:
            raise UnauthenticatedError("unknown token")
        return authenticated
