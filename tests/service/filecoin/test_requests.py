"""Requests of cuzk's protocol: hostile ones are refused when they are submitted, with a reason."""

from __future__ import annotations

import random
import threading

import grpc
import pytest

from quod.errors import InputError, MismatchError
from quod.filecoin.challenges import window_challenges
from quod.filecoin.files import (
    commit_to_json,
    post_sector_to_bincode,
    update_partition_to_bincode,
)
from quod.filecoin.parameters import ProofKind
from quod.filecoin.registered_proofs import post_proof
from quod.filecoin.sealing import sparse_posts
from quod.filecoin.statement_files import StatementFile
from quod.service.errors import NotFoundError, UnavailableError
from quod.service.filecoin.circuit_ids import circuit_id, parameters_of
from quod.service.filecoin.pool import FilecoinPool
from quod.service.filecoin.requests import check_devices, parse_body, parse_request, priority_of
from quod.service.protocol import cuzk_pb2 as pb
from quod.service.server import cuzk
from quod.service.server.service import _READERS
from tests.filecoin.sealed import SECTOR, commit_output, update_partition, updated
from tests.service.filecoin.curio_client import POREP, SNAP, WINDOW, CurioClient, Fields, encoded
from tests.service.filecoin.messages import window_request, winning_request


def seal_request(number: int = 5, **_: object) -> Fields:
    document = commit_to_json(commit_output(number), SECTOR)
    return {2: POREP, 3: 2048, 4: number, 10: document, 20: SECTOR, 21: 1000}


def update_request() -> Fields:
    statement = updated().statement
    proof, old, data, new = update_partition()
    vanilla_proof = update_partition_to_bincode(proof, statement.sector)
    return {2: SNAP, 3: 2048, 11: [vanilla_proof], 30: old, 31: new, 32: data}


REQUESTS = {
    "window": window_request(7),
    "winning": winning_request(),
    "porep": seal_request(),
    "update": update_request(),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_valid_requests(kind: str) -> None:
    statement = parse_body(encoded(REQUESTS[kind])).statement
    assert circuit_id(statement.parameters) == {
        "window": "wpost-2k", "winning": "winning-2k", "porep": "porep-2k", "update": "snap-2k",
    }[kind]  # fmt: skip


def test_commitments_as_cids() -> None:
    """Curio sends the commitments of SnapDeals as CIDs."""
    request = dict(REQUESTS["update"])
    plain = parse_body(encoded(request)).statement
    sealed, unsealed = bytes.fromhex("0182e20381e80220"), bytes.fromhex("0181e203922020")
    request |= {30: sealed + request[30], 31: sealed + request[31], 32: unsealed + request[32]}
    assert parse_body(encoded(request)).statement == plain
    for wrong in (b"", request[30][:-1], b"\0" + request[31], bytes(33)):
        with pytest.raises(InputError, match="comm_r_new: must be 32 bytes or the CID"):
            parse_body(encoded(request | {31: wrong}))
    # Those of another field.
    for number, wrong in ((30, request[32]), (31, request[32]), (32, request[31])):
        with pytest.raises(InputError, match="must be 32 bytes or the CID"):
            parse_body(encoded(request | {number: wrong}))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("window", {2: 0}, "proof_kind: must be a kind of proof from 1 to 4, not 0"),
        ("window", {2: 9}, "proof_kind: must be a kind of proof"),
        ("window", {2: 4}, "registered_proof: 10 is a proof of the kind window, not winning"),
        ("winning", {2: 3}, "registered_proof: 0 is a proof of the kind winning, not window"),
        ("window", {3: 34359738368}, "sector_size: is 34359738368, and the registered proof 10"),
        ("window", {4: 99}, "the registered PoSt proof must be"),
        ("window", {4: 13, 3: 34359738368}, r"vanilla_proofs\[0\]"),
        ("window", {4: 5}, "partition_index: the registered proof 5 is supported for partition 0"),
        ("window", {11: []}, "vanilla_proofs: must have 1 to 2 entries, not 0"),
        ("window", {11: [b""] * 3}, "vanilla_proofs: must have 1 to 2 entries, not 3"),
        ("window", {11: REQUESTS["window"][11] * 2}, r"sectors\[1\].sector_id: must be above"),
        ("window", {22: b"short"}, "the randomness must be 32 bytes"),
        ("winning", {11: REQUESTS["window"][11]}, r"vanilla_proofs\[0\]"),
        ("porep", {10: b"garbage"}, "vanilla_proof"),
        ("porep", {10: b""}, "vanilla_proof, offset 0: is empty; give an output of C1"),
        ("porep", {3: 8388608}, "sector_size: is 8388608, and the proofs are of sectors of 2048"),
        ("porep", {4: 6}, "registered_proof: is 6, and that of the output of C1 is 5"),
        ("porep", {20: 8}, "sector_number: is 8, and the output of C1 is of sector 7"),
        ("update", {11: []}, "vanilla_proofs: must have 1 entry, not 0"),
        ("winning", {11: []}, "vanilla_proofs: must have 1 entry, not 0"),
        ("update", {3: 8388608}, "vanilla_proofs: must have 4 entries, not 1"),
        ("update", {3: 5}, "sector"),
    ],
)
def test_refused_requests(kind: str, changes: Fields, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_body(encoded(REQUESTS[kind] | changes))


def test_a_non_interactive_porep() -> None:
    with pytest.raises(InputError, match="an aggregate \\(SnarkPack\\), which is not supported"):
        parse_body(encoded(seal_request(15)))


@pytest.mark.parametrize("kind", ["window", "update"])
def test_damaged_vanilla_proofs(kind: str) -> None:
    """A cut proof is refused with its offset; a changed byte leads to no other error."""
    [proof], chance = REQUESTS[kind][11], random.Random(kind)
    for _ in range(20):
        cut = proof[: chance.randrange(len(proof))]
        with pytest.raises(InputError, match=r"vanilla_proofs\[0\]"):
            parse_body(encoded(REQUESTS[kind] | {11: [cut]}))
        changed = bytearray(proof)
        changed[chance.randrange(len(proof))] ^= 1 << chance.randrange(8)
        try:
            parse_body(encoded(REQUESTS[kind] | {11: [bytes(changed)]}))
        except InputError:
            continue


def test_large_circuits_are_refused() -> None:
    """A WindowPoSt of 32 GiB is refused by a device that cannot hold its key."""
    proof = post_proof(13)
    challenges = window_challenges(proof.sector, proof.api_version, bytes(32), 7, 0)
    (sector_proof,) = sparse_posts(proof.sector, {7: challenges})
    vanilla_proof = post_sector_to_bincode(sector_proof, proof.sector)
    request = {2: WINDOW, 3: proof.sector.size, 4: 13, 11: [vanilla_proof], 22: bytes(32)}
    parameters = parse_body(encoded(request)).statement.parameters
    with pytest.raises(InputError, match="of the kind window for sectors of 32GiB need a CUDA"):
        check_devices(parameters, ["cpu"])
    check_devices(parameters, ["cpu", "emulated"])
    with pytest.raises(UnavailableError, match="no devices"):
        check_devices(parameters, [])


def test_priorities() -> None:
    """All WinningPoSt are before all WindowPoSt, which are before the others."""
    ranges = {
        kind: [
            priority_of(pb.SubmitProofRequest(priority=level), kind)  # type: ignore[arg-type]
            for level in (1, 0, 2, 3, 4)
        ]
        for kind in ProofKind
    }
    for levels in ranges.values():
        assert levels == sorted(levels)
        assert levels[0] < levels[1] == levels[2] < levels[3] == levels[4]
    assert ranges[ProofKind.POREP] == ranges[ProofKind.UPDATE]
    assert min(ranges[ProofKind.WINNING]) > max(ranges[ProofKind.WINDOW])
    assert min(ranges[ProofKind.WINDOW]) > max(ranges[ProofKind.POREP])
    assert max(ranges[ProofKind.WINNING]) <= 9


def test_circuit_ids() -> None:
    for name in ("porep-32g", "snap-64g", "wpost-8m", "winning-2k"):
        assert circuit_id(parameters_of(name)) == name
    for name in ("porep", "porep-1g", "", "PoRep-32g", "a" * 1000):
        with pytest.raises(NotFoundError, match="there is no circuit of this name"):
            parameters_of(name)
    with pytest.raises(MismatchError):
        parse_request(pb.SubmitProofRequest(proof_kind=pb.WINNING_POST, registered_proof=5))


def test_hostile_calls(curio: CurioClient) -> None:
    """The server refuses them with a status, and its queue stays empty."""
    status = grpc.StatusCode
    valid = REQUESTS["window"]
    for name, request, code in (
        ("SubmitProof", b"\xff" * 100, status.INVALID_ARGUMENT),
        ("SubmitProof", b"", status.INVALID_ARGUMENT),
        ("SubmitProof", valid | {3: 4096}, status.INVALID_ARGUMENT),
        ("SubmitProof", seal_request(15), status.INVALID_ARGUMENT),
        # Parameters that the server does not have.
        ("SubmitProof", REQUESTS["porep"], status.NOT_FOUND),
        ("Prove", encoded({1: valid})[:-7], status.INVALID_ARGUMENT),
        ("Prove", {1: valid | {11: [valid[11][0][:-1]]}}, status.INVALID_ARGUMENT),
        ("Prove", {}, status.INVALID_ARGUMENT),
        ("Prove", {1: {10: bytes(5 << 20)}}, status.RESOURCE_EXHAUSTED),
        ("SubmitProof", {11: [b""] * 70_000}, status.INVALID_ARGUMENT),
        ("AwaitProof", {1: "none"}, status.NOT_FOUND),
        ("CancelProof", {1: "none"}, status.NOT_FOUND),
        ("PreloadSRS", {1: "none"}, status.NOT_FOUND),
        ("PreloadSRS", {1: "porep-2k"}, status.NOT_FOUND),
        ("EvictSRS", {1: "none"}, status.NOT_FOUND),
        ("Nothing", {}, status.UNIMPLEMENTED),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            curio.ask(name, request)
        assert caught.value.code() is code, (name, caught.value)
    assert curio.unfinished() == 0


def test_large_requests_are_parsed_one_at_a_time(
    curio: CurioClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile a WinningPoSt is parsed."""
    large, most, lock = [0], [0], threading.Lock()
    leave = threading.Event()

    def parse(request: pb.SubmitProofRequest) -> StatementFile:
        if not request.vanilla_proof:
            return parse_request(request)
        with lock:
            large[0] += 1
            most[0] = max(most[0], large[0])
        assert leave.wait(60)
        with lock:
            large[0] -= 1
        raise InputError("is large")

    monkeypatch.setattr(cuzk, "parse_request", parse)
    request = seal_request() | {10: bytes(2 << 20)}
    calls = [curio.call("SubmitProof", request) for _ in range(2 * _READERS)]
    # The server lacks the parameters, which it reports once the request is parsed.
    with pytest.raises(grpc.RpcError) as caught:
        curio.ask("SubmitProof", REQUESTS["update"])
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    leave.set()
    for call in calls:
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert most == [1]


def test_loading_keys_delays_no_client(curio: CurioClient, monkeypatch: pytest.MonkeyPatch) -> None:
    leave = threading.Event()
    monkeypatch.setattr(FilecoinPool, "preload", lambda *_: leave.wait(60))
    calls = [curio.call("PreloadSRS", {1: "wpost-2k"}) for _ in range(2 * _READERS)]
    assert curio.unfinished() == 0
    assert not any(call.done() for call in calls)
    leave.set()
    for call in calls:
        call.result()
