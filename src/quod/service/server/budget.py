"""The memory budget of requests, shared by gRPC and HTTP.

`RequestLimits.message_bytes` bounds a message and its parsed form. The budget bounds the number of
messages at a time: every handler reserves bytes here before it reads the first byte of a body, and
only handlers with a reservation read bodies.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, deque
from typing import Final, Self

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.errors import QueueFullError
from quod.service.server.clients import ANONYMOUS, Client
from quod.service.server.config import BUDGET_SHARE, RequestLimits

CALL_BYTES: Final = 16 << 10
"""The memory of an open call: its task, and unread bytes in the buffers of its connection."""

_STRANGERS_DIVISOR: Final = 4
_PEER_DIVISOR: Final = 8
_WAIT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0


@frozen
class Owner:
    """The account of a request: a client, or the address of an unauthenticated caller."""

    name: str
    is_stranger: bool = False


def owner_of(client: Client, peer: str) -> Owner:
    """Return the account of a client; without a token, each address has its own account."""
    if client.name == ANONYMOUS:
        return Owner(f"{ANONYMOUS} {peer_address(peer)}")
    return Owner(client.name)


def stranger(peer: str) -> Owner:
    """Return the account of an unauthenticated caller, by its address without the port."""
    return Owner(f"peer {peer_address(peer)}", is_stranger=True)


def peer_address(peer: str) -> str:
    """Return the address of a peer without its port; for IPv6 its network of 64 bits.

    peer: as gRPC writes it (``ipv4:192.0.2.1:4711``, ``ipv6:%5B::1%5D:4711``, ``unix:``) or as a
        host alone.
    """
    kind, _, endpoint = peer.partition(":")
    if kind == "unix":
        return kind
    if kind in ("ipv4", "ipv6"):
        peer = endpoint.rpartition(":")[0]
    host = peer.replace("%5B", "").replace("%5D", "").strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class RequestBudget:
    """The bytes that requests hold, in total and per owner.

    A client holds at most half of them, one unauthenticated address an eighth, and all
    unauthenticated callers together a quarter, so that they cannot keep clients out. Not
    thread-safe: use it in the thread of one event loop.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self._total = limits.budget_bytes
        self._used: Counter[str] = Counter()
        self._used_by_strangers = self._used_total = 0
        self._waiting: deque[tuple[Owner, int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        """The number of reserved bytes."""
        return self._used_total

    def of(self, owner: Owner) -> Reservation:
        """Return an empty reservation of an owner."""
        return Reservation(self, owner)

    def fits(self, owner: Owner, nbytes: int) -> bool:
        """Report whether an owner may reserve `nbytes` more bytes now."""
        if (
            owner.is_stranger
            and self._used_by_strangers + nbytes > self._total // _STRANGERS_DIVISOR
        ):
            return False
        return (
            self._used[owner.name] + nbytes <= self.share(owner)
            and self._used_total + nbytes <= self._total
        )

    def share(self, owner: Owner) -> int:
        """Return the maximum number of bytes that an owner may hold at a time."""
        return self._total // (_PEER_DIVISOR if owner.is_stranger else BUDGET_SHARE)

    def take(self, owner: Owner, nbytes: int) -> None:
        """Reserve bytes for an owner at once, or raise `QueueFullError`."""
        if not self.fits(owner, nbytes):
            raise self._full(owner)
        self._add(owner, nbytes)

    async def wait(self, owner: Owner, nbytes: int) -> None:
        """Reserve bytes for an owner, in the order of its requests.

        Raises `QueueFullError` after five seconds, `InputError` for more bytes than its share.
        """
        if nbytes > self.share(owner):
            raise InputError(
                f"the request takes {nbytes} bytes of memory, more than the client's "
                f"share of {self.share(owner)} (requests.budget_bytes); send a smaller "
                "request"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (owner, nbytes, turn)
        self._waiting.append(entry)
        self._admit()
        if turn.done():
            return
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give_back(owner, nbytes)
            elif entry in self._waiting:
                # A return of bytes since the cancellation may have removed the entry.
                self._waiting.remove(entry)
            if isinstance(error, TimeoutError):
                raise self._full(owner) from None
            raise

    def give_back(self, owner: Owner, nbytes: int) -> None:
        """Return some of the bytes of an owner."""
        self._add(owner, -nbytes)
        if not self._used[owner.name]:
            del self._used[owner.name]
        if self._waiting:
            self._admit()

    def _add(self, owner: Owner, nbytes: int) -> None:
        self._used[owner.name] += nbytes
        self._used_total += nbytes
        if owner.is_stranger:
            self._used_by_strangers += nbytes

    def _admit(self) -> None:
        """Admit waiting requests that fit, for each owner in order."""
        blocked: set[Owner] = set()
        for entry in tuple(self._waiting):
            owner, nbytes, turn = entry
            if owner in blocked or not self.fits(owner, nbytes):
                blocked.add(owner)
                continue
            self._waiting.remove(entry)
            if not turn.done():
                self._add(owner, nbytes)
                turn.set_result(None)

    def _full(self, owner: Owner) -> QueueFullError:
        return QueueFullError(
            f"the requests of this client use up its share of memory ({self.share(owner)} bytes), "
            "or those of all clients use up the budget; retry later",
            retry_seconds=_RETRY_SECONDS,
        )


class Reservation:
    """The bytes of one request; all of them are returned at the end of a `with` block."""

    def __init__(self, budget: RequestBudget, owner: Owner) -> None:
        self._budget, self._owner, self._held, self._open = budget, owner, 0, True

    @property
    def limits(self) -> RequestLimits:
        return self._budget.limits

    @property
    def held(self) -> int:
        return self._held

    def take(self, nbytes: int) -> None:
        """Reserve more bytes at once, or raise `QueueFullError`."""
        self._budget.take(self._owner, nbytes)
        self._held += nbytes

    async def wait(self, nbytes: int) -> None:
        """Reserve more bytes once they are free; see `RequestBudget.wait`."""
        await self._budget.wait(self._owner, nbytes)
        self._held += nbytes
        # The request may have ended during the wait.
        if not self._open:
            self.close()

    def return_to(self, nbytes: int) -> None:
        """Return all but `nbytes` bytes."""
        if nbytes < self._held:
            self._budget.give_back(self._owner, self._held - nbytes)
            self._held = nbytes

    def close(self) -> None:
        """Return all bytes; a second call does nothing."""
        self._open = False
        self.return_to(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
