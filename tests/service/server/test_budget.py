"""The request budget: fair shares, fair waiting, and complete release."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

import quod.service.server
from quod.errors import InputError
from quod.service.errors import PermissionDeniedError, QueueFullError
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.fields import check_fields
from quod.service.queue import Limits, Quota
from quod.service.server import budget, config
from quod.service.server.budget import Owner, RequestBudget, owner_of, peer_address, stranger
from quod.service.server.clients import ANONYMOUS, Client, Role
from quod.service.server.config import RequestLimits
from quod.service.server.intake import Intake
from quod.service.server.pending_bytes import PendingBytes

LIMITS = RequestLimits(message_bytes=4096, budget_bytes=64 << 10)
ANN, BOB, CID = Owner("ann"), Owner("bob"), Owner("cid")


def test_fair_shares_per_client() -> None:
    requests = RequestBudget(LIMITS)
    ann, bob = requests.of(ANN), requests.of(BOB)
    ann.take(32 << 10)
    with pytest.raises(QueueFullError, match="its share of memory"):
        ann.take(1)
    bob.take(32 << 10)
    with pytest.raises(QueueFullError):
        requests.of(CID).take(1)
    ann.return_to(100)
    assert requests.used == (32 << 10) + 100
    ann.close()
    bob.close()
    bob.close()
    assert requests.used == 0


def test_unauthenticated_callers_cannot_block_clients() -> None:
    requests = RequestBudget(LIMITS)
    for number in range(2):
        requests.of(stranger(f"ipv4:192.0.2.{number}:1")).take(8 << 10)
    with pytest.raises(QueueFullError):
        requests.of(stranger("ipv4:192.0.2.1:2")).take(1)
    with pytest.raises(QueueFullError):
        requests.of(stranger("ipv4:192.0.2.9:1")).take(1)
    requests.of(ANN).take(32 << 10)


def test_waiting_is_fair_between_clients() -> None:
    async def wait() -> None:
        requests = RequestBudget(LIMITS)
        ann, bob = requests.of(ANN), requests.of(BOB)
        ann.take(32 << 10)
        order: list[str] = []

        async def take(name: str, owner: Owner, nbytes: int) -> None:
            with requests.of(owner) as reservation:
                await reservation.wait(nbytes)
                order.append(name)

        tasks = [asyncio.ensure_future(take(f"ann {n}", ANN, 20 << 10)) for n in range(3)]
        await asyncio.sleep(0)
        # Whose own share is free waits for nobody.
        await take("bob", BOB, 30 << 10)
        tasks[1].cancel()
        ann.close()
        await asyncio.wait(tasks)
        assert order == ["bob", "ann 0", "ann 2"]
        assert requests.used == 0
        with pytest.raises(InputError, match=r"requests\.budget_bytes"):
            await bob.wait(64 << 10)

    asyncio.run(wait())


def test_waiting_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_WAIT_SECONDS", 0.01)

    async def wait() -> None:
        requests = RequestBudget(LIMITS)
        requests.of(ANN).take(32 << 10)
        with requests.of(ANN) as reservation, pytest.raises(QueueFullError):
            await reservation.wait(1)
        assert requests.used == 32 << 10

    asyncio.run(wait())


def test_call_cancelled_while_memory_is_released() -> None:
    async def wait() -> None:
        requests = RequestBudget(LIMITS)
        with requests.of(ANN) as first, requests.of(ANN) as second:
            first.take(32 << 10)
            waiting = asyncio.ensure_future(second.wait(1))
            await asyncio.sleep(0)
            # The turn is cancelled and not yet withdrawn when the bytes come back.
            waiting.cancel()
            first.close()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert requests.used == 0

    asyncio.run(wait())


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:4711", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::6", "2001:db8:1:2::/64"),
        ("ipv6:[::1]:4711", "::/64"),
        ("ipv6:[::ffff:192.0.2.1]:4711", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("unix:", "unix"),
        ("unix:/x/y", "unix"),
    ],
)
def test_peer_addresses_are_normalised(peer: str, address: str) -> None:
    assert peer_address(peer) == address


def test_budget_owners() -> None:
    ann = Client("ann", frozenset(Role))
    assert owner_of(ann, "192.0.2.1") == owner_of(ann, "192.0.2.2") == ANN
    nobody = Client(ANONYMOUS, frozenset(Role))
    assert owner_of(nobody, "192.0.2.1") != owner_of(nobody, "192.0.2.2")
    with pytest.raises(
        PermissionDeniedError, match="the role client or operator, which m does not"
    ):
        Client("m", frozenset([Role.METRICS])).require(Role.CLIENT, Role.OPERATOR)


def test_message_reading_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_MIN_BODY_SECONDS", 0.01)
    intake = Intake(LIMITS.model_copy(update={"bytes_per_second": 1 << 40}))

    async def never() -> AsyncIterator[bytes]:
        assert intake.budget.used == 4096
        await asyncio.Event().wait()
        yield b""

    async def receive() -> None:
        with (
            intake.budget.of(ANN) as reservation,
            pytest.raises(InputError, match="did not arrive within"),
        ):
            await intake.message(never(), reservation)

    asyncio.run(receive())
    assert intake.budget.used == 0
    intake.close()


def test_a_budget_holds_two_messages_of_a_client() -> None:
    with pytest.raises(ValueError, match="at least 4 times message_bytes"):
        RequestLimits(message_bytes=1 << 20, budget_bytes=(4 << 20) - 1)


def test_uploads_count_for_quotas() -> None:
    pending = PendingBytes(Limits(clients={"ann": Quota(payload_bytes=100)}, payload_bytes=150))
    with pending.reserve("ann", 60, {"ann": 20}):
        with (
            pytest.raises(QueueFullError, match="quota of bytes is 100, and 80 are in use"),
            pending.reserve("ann", 21, {"ann": 20}),
        ):
            pass
        with (
            pytest.raises(QueueFullError, match="limit of bytes is 150, and 80 are in use"),
            pending.reserve("bob", 71, {"ann": 20}),
        ):
            pass
    with pending.reserve("ann", 80, {"ann": 20}):
        pass


def test_uploads_of_one_client_leave_room_for_another() -> None:
    pending = PendingBytes(Limits(payload_bytes=150))
    with pending.reserve("ann", 100, {}):
        with (
            pytest.raises(QueueFullError, match="150, and 50 are free: the client has 100"),
            pending.reserve("ann", 10, {}),
        ):
            pass
        with pending.reserve("bob", 40, {}):
            pass


class TestFields:
    """Fields are counted in the bytes of a message."""

    def check(self, message: Any, most: int) -> None:
        check_fields(message.SerializeToString(), message.DESCRIPTOR, most)

    def test_inner_message_fields_count(self) -> None:
        witness = pb.Witness(wtns=b"x" * 1000)
        proof = pb.SubmitProofRequest(key="k", witnesses=[witness] * 3, priority=3)
        message = pb.SubmitProofsRequest(proofs=[proof] * 2)
        self.check(message, 2 * (1 + 1 + 1 + 3 * 2))
        with pytest.raises(InputError, match="more than 17 fields"):
            self.check(message, 17)

    def test_elements_of_packed_fields_count(self) -> None:
        begin = pb.UploadProofRequest.Begin(lengths=[1, 1 << 40, 0])
        message = pb.UploadProofRequest(begin=begin)
        self.check(message, 5)
        with pytest.raises(InputError, match="more than 4 fields"):
            self.check(message, 4)

    def test_unknown_fields_count(self) -> None:
        data = b"\xf8\x01\x00" * 3 + b"\xfd\x01abcd" + b"\xf9\x01abcdefgh"
        check_fields(data, pb.Witness.DESCRIPTOR, 5)
        with pytest.raises(InputError, match="more than 4 fields"):
            check_fields(data, pb.Witness.DESCRIPTOR, 4)

    @pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05a", b"\x0b", b"\x80" * 12, b"\x0d12"])
    def test_invalid_messages_are_rejected(self, data: bytes) -> None:
        with pytest.raises(InputError, match="is not a message of this call"):
            check_fields(data, pb.Witness.DESCRIPTOR, 100)


SERVER = Path(quod.service.server.__file__).parent
# What reads the body of a request, or has grpcio read it before a handler runs.
READING = {
    "stream", "body", "json", "form", "_receive", "read",
    "unary_unary_rpc_method_handler", "unary_stream_rpc_method_handler",
    "stream_unary_rpc_method_handler", "stream_stream_rpc_method_handler",
}  # fmt: skip
ALLOWED = {
    "intake.py": {"stream"},
    # Both have grpcio receive nothing before their handlers run, which go through Intake.
    "rpc.py": {"stream_unary_rpc_method_handler", "stream_stream_rpc_method_handler"},
    "public_calls.py": {"stream_unary_rpc_method_handler", "stream_stream_rpc_method_handler"},
}


def test_bodies_are_read_only_through_the_budget() -> None:
    for path in SERVER.rglob("*.py"):
        used = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            base = ast.unparse(node.func.value)
            if node.func.attr in READING and base.split(".")[-1] in ("request", "grpc", "context"):
                used.add(node.func.attr)
        assert used <= ALLOWED.get(path.name, set()), path.name


def test_no_route_has_a_body_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    apps: list[FastAPI] = []
    init = FastAPI.__init__

    def kept(self: FastAPI, **fields: Any) -> None:
        apps.append(self)
        init(self, **fields)

    monkeypatch.setattr(FastAPI, "__init__", kept)
    from quod.service.server.http.app import ROUTERS, http_app

    class Service:
        limits = LIMITS
        intake = Intake(LIMITS)
        observer = None

    http_app(Service(), None, frozenset(), is_local=True)  # type: ignore[arg-type]
    [app] = apps
    # FastAPI may keep included routers apart from the application's own routes.
    both = [route for routed in (app, *ROUTERS) for route in routed.routes]
    routes = [route for route in both if isinstance(route, APIRoute)]
    assert {route.path for route in routes} == set(app.openapi()["paths"])
    for route in routes:
        assert route.body_field is None, route.path
