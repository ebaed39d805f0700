"""A new hash is a file and a table row, used by transcripts, digests and verifiers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field import EXTENSIONS
from quod.gkr.checker.reading import hash_runs
from quod.gkr.key import minimum_chain
from quod.gkr.prover.steps import begin_proofs
from quod.hash import Hash
from quod.hash.function import header
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.machine import Machine
from quod.transcript import Label, Transcript
from quod.transcript.chain import RunHash
from quod.transcript.digests import digest_runs
from tests.gkr.circuits import satisfied
from tests.hash.toy import toy
from tests.transcript.test_chain import check

FIELD = EXTENSIONS["m31.4"]
MACHINE = Machine("llvm", 1, frozenset())


def member(name: str, row: str) -> Hash:
    """A row of the table that stands in tests."""
    hash = object.__new__(Hash)
    hash._name_, hash._value_, hash._row = row, name, f"tests.hash.toy.{row}"
    return hash


TOY = member("toy", "TOY")
HOST_ONLY = member("toy-host", "HOST_ONLY")


def test_toy_hash_on_the_host() -> None:
    data = bytes(range(200)) * 30
    assert TOY.digest(data) == toy(data)
    runs = [data[:4096], data[4096:]]
    assert TOY.digests_of_runs(runs, 3) == [toy(run + b"\3") for run in runs]
    assert TOY.digest_by_runs(data) == toy(b"".join(TOY.digests_of_runs(runs, 0)) + b"\1")
    transcript = Transcript(hash=TOY)
    transcript.begin("test 1")
    assert transcript.state == toy(bytes(32) + b"\x0a\0\0\1test 1 toy")
    assert (TOY.field, TOY.is_algebraic, TOY.has_kernel) == (None, False, True)
    circuit, _, _ = satisfied(FIELD.modulus, 3, layers=1, log_inputs=2)
    assert minimum_chain(circuit, TOY) == 64


def test_kernels_agree_with_the_host(device: AnyDevice) -> None:
    check(device, FIELD, 3, TOY)


@kernel
def run_digests(k: Builder, words: Pointer[U32], out: Pointer[U32], *, hash: Hash) -> None:
    """Digest a run of 20 words on level 2, and the first 3 and all 4 words of a message."""
    digest, chain = RunHash(k, hash), hash.in_kernel(k, alone=True)
    k.store(out, 0, *digest(lambda at, count: k.load(words, at, count), 20, 2))
    state, message = k.load(words, 0, 8), k.load(words, 8, 4)
    (length,) = k.load(words, 20)
    for number in range(2):
        begin = (length << 2) | (int(Label.VALUES) << 24)
        k.store(out, 8 + 8 * number, *chain.absorbed_prefix(state, begin, message, length))
        length = length + 1


@pytest.mark.parametrize("hash", [TOY, Hash.SHA3_256, Hash.SHA_256], ids=lambda hash: hash.value)
def test_runs_and_prefixes_agree_with_the_host(device: AnyDevice, hash: Hash) -> None:
    words = np.arange(1, 22, dtype=np.uint32) * 0x01020304
    words[20] = 3
    out = np.zeros(24, np.uint32)
    device.launch(device.compile(run_digests, lanes=1, hash=hash), 1, words, out)
    data = words.tobytes()
    (run,) = hash.digests_of_runs([data[:80]], 2)
    prefixes = [
        hash.digest(data[:32] + header(Label.VALUES, size) + data[32 : 32 + size])
        for size in (12, 16)
    ]
    assert out.tobytes() == run + b"".join(prefixes)


TRACES: dict[str, Callable[[], object]] = {
    "digests": lambda: digest_runs.trace(MACHINE, hash=HOST_ONLY, words=64),
    "chains": lambda: begin_proofs.trace(MACHINE, field=FIELD, hash=HOST_ONLY),
    "messages": lambda: hash_runs.trace(MACHINE, field=FIELD, hash=HOST_ONLY),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_hash_of_the_host_alone_is_refused_by_name(name: str) -> None:
    assert HOST_ONLY.digest(b"abc") == toy(b"abc")
    assert not HOST_ONLY.has_kernel
    with pytest.raises(InputError, match="toy-host is not available inside kernels"):
        TRACES[name]()


@pytest.mark.parametrize("hash", Hash)
def test_every_hash_is_consistent_and_distinct(hash: Hash) -> None:
    """Each row loads, and its digests differ from those of all others."""
    assert len(hash.digest(b"abc")) == 32
    others = [other for other in Hash if other is not hash]
    assert hash.digest(b"abc") not in [other.digest(b"abc") for other in others]
    assert hash.is_algebraic == hash.value.startswith("poseidon2-")
    if hash.field is not None:
        assert hash.value == f"poseidon2-{hash.field.name}"
