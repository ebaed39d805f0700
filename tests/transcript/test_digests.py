"""Digests of long messages: on the host against hashlib, and on devices against the host."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.field import NAMED, random_elements
from quod.hash.byte_hash import RUN_BYTES
from quod.transcript import Hash, Label, ProofReader, ProofWriter, Transcript
from quod.transcript.digests import RecordedDigest

BYTES = {Hash.SHA3_256: hashlib.sha3_256, Hash.SHA_256: hashlib.sha256}


def plain(function: Any, data: bytes, level: int = 0) -> bytes:
    """Its definition."""
    starts = range(0, max(1, len(data)), RUN_BYTES)
    runs = [function(data[at : at + RUN_BYTES] + bytes([level])).digest() for at in starts]
    return runs[0] if len(runs) == 1 else plain(function, b"".join(runs), level + 1)


@pytest.mark.parametrize("hash", BYTES)
def test_digests_match_hashlib(hash: Hash) -> None:
    each = RUN_BYTES // 32
    for size in (0, 1, RUN_BYTES, RUN_BYTES + 1, 3 * RUN_BYTES, (each + 1) * RUN_BYTES + 5):
        data = np.arange(size, dtype=np.uint32).astype(np.uint8).tobytes()
        assert hash.digest_by_runs(data) == plain(BYTES[hash], data)


def test_digests_of_different_levels_differ() -> None:
    """A message of digests does not have the digest of the message they came from."""
    data = bytes(2 * RUN_BYTES)
    inner = plain(hashlib.sha3_256, data[:RUN_BYTES]) * 2
    digest = Hash.SHA3_256.digest_by_runs(data)
    assert Hash.SHA3_256.digest_by_runs(inner) != digest
    assert Hash.SHA3_256.digest_by_runs(inner, level=1) == digest
    for wrong in (-1, 256, None):
        with pytest.raises(InputError, match="the level"):
            Hash.SHA3_256.digest_by_runs(b"", level=wrong)  # type: ignore[arg-type]


def check(device: AnyDevice, hash: Hash, words: int) -> None:
    field = hash.field or NAMED["m31"]
    count = 3
    table = random_elements(field, count * words // field.words, seed=words)
    # Of a hash over a field elements are integers below p as they stand.
    recorded = RecordedDigest(device, hash, device.upload(table), count)
    recording = device.stream().record()
    recorded.record(recording)
    recording.finish().submit().wait()
    rows = table.reshape(count, -1)
    assert recorded.digests(field) == [hash.digest_by_runs(row.tobytes(), field) for row in rows]


@pytest.mark.parametrize(
    "hash",
    [*BYTES, Hash.POSEIDON2_M31,
     pytest.param(Hash.POSEIDON2_GOLDILOCKS, marks=pytest.mark.thorough)],
)  # fmt: skip
def test_devices_agree_with_the_host(device: AnyDevice, hash: Hash) -> None:
    for words in (hash.run_words // 2, hash.run_words, 4 * hash.run_words):
        check(device, hash, words)


def test_two_levels_on_a_device(device: AnyDevice) -> None:
    check(device, Hash.SHA3_256, 1024 * 128 * 2)


@pytest.mark.parametrize("hash", [Hash.SHA3_256, Hash.SHA_256])
def test_gpus_agree_with_the_host(gpu_device: AnyDevice, hash: Hash) -> None:
    check(gpu_device, hash, 2 * hash.run_words)


def test_idle_device_is_detected(device: AnyDevice) -> None:
    recorded = RecordedDigest(device, Hash.SHA3_256, device.allocate(2 * RUN_BYTES))
    recording = device.stream().record()
    recorded.record(recording)
    recording.finish().submit().wait()
    assert recorded.digests(NAMED["m31"]) == [Hash.SHA3_256.digest_by_runs(bytes(2 * RUN_BYTES))]
    device.upload(np.full((2, 8), 0xFFFFFFFF, np.uint32), into=recorded._levels[-1])
    with pytest.raises(DeviceError, match="without computing the digest of a table"):
        recorded.digests(NAMED["m31"])


def test_words_may_be_filled_in_after_their_digest() -> None:
    """A prover's words may still be downloading while their digest is absorbed."""
    field = NAMED["m31"]
    table = random_elements(field, 8, seed=3)
    words = np.zeros_like(table)
    writer = ProofWriter(Transcript())
    writer.digested_words(
        Label.COMMITMENT, words, Hash.SHA3_256.digest_by_runs(table.tobytes(), field)
    )
    words[:] = table
    reader = ProofReader(writer.getvalue(), Transcript())
    assert (reader.digested_words(Label.COMMITMENT, field, 8) == table).all()
    assert reader.transcript.state == writer.transcript.state
