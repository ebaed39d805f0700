"""Ligero openings checked on devices, compared with the reference verifier."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from quod.commitment import Claim, Ligero
from quod.commitment.ligero.checker.openings import OpeningChecker
from quod.commitment.ligero.checker.paths import Paths
from quod.commitment.ligero.merkle import siblings
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, VerificationError
from quod.field import EXTENSIONS, from_integers
from quod.transcript import Hash, Label, ProofReader, ProofWriter, Transcript
from tests.commitment.tables import FIELDS, Statement, begun, model, plain, prove, statement, verify
from tests.support.idle_device import Idle
from tests.support.skipping_device import SkippingDevice
from tests.support.thorough import one_and_others

M31_4 = EXTENSIONS["m31.4"]


def check(
    checker: OpeningChecker,
    scheme: Ligero,
    instance: Statement,
    proof: bytes,
    name: bytes = b"test",
) -> bytes:
    """The state of the transcript behind a proof that is taken."""
    reader = ProofReader(proof, begun(name))
    commitment = scheme.read(reader, instance.field, instance.variables, allow_bits=0)
    checker.check(commitment, instance.claims, reader)
    reader.end()
    return reader.transcript.state


def taken(device: AnyDevice, scheme: Ligero, instance: Statement) -> None:
    """A proof that is right is taken without the plain verifier."""
    proof, state = prove(scheme, open_device("cpu"), instance)
    checker = OpeningChecker(device, scheme.shape(instance.field, instance.variables))
    for _ in range(2):
        with patch.object(LigeroCommitment, "check", side_effect=AssertionError):
            assert check(checker, scheme, instance, proof) == state


@pytest.mark.parametrize("name", one_and_others(FIELDS, ["goldilocks", "goldilocks.2"]))
def test_proofs_are_accepted(device: AnyDevice, name: str) -> None:
    taken(device, Ligero(), statement(FIELDS[name], 6, 2))


@pytest.mark.parametrize("hash", [Hash.SHA_256, Hash.POSEIDON2_M31])
def test_other_hashes(hash: Hash) -> None:
    device, scheme, instance = open_device("cpu"), Ligero(column_bits=10), statement(M31_4, 5, 2)

    def started() -> Transcript:
        transcript = Transcript(hash=hash, recursive=hash.is_algebraic)
        transcript.absorb(Label.PROTOCOL, b"test")
        return transcript

    writer, committer = ProofWriter(started()), scheme.committer(device, M31_4, 5, allow_bits=0)
    committer.commit(device.upload(from_integers(M31_4.modulus, instance.table)), writer)
    committer.open(instance.claims, writer)
    reader = ProofReader(writer.getvalue(), started())
    checker = OpeningChecker(device, scheme.shape(M31_4, 5))
    with patch.object(LigeroCommitment, "check", side_effect=AssertionError):
        checker.check(scheme.read(reader, M31_4, 5, allow_bits=0), instance.claims, reader)
    assert reader.transcript.state == writer.transcript.state


@pytest.mark.parametrize("hash", [Hash.SHA_256, Hash.POSEIDON2_M31])
def test_trees_of_other_hashes(device: AnyDevice, hash: Hash) -> None:
    taken(device, Ligero(2, 10, hash), statement(M31_4, 6, 2))


@pytest.mark.thorough
def test_trees_of_a_hash_on_32_bits_more() -> None:
    scheme = Ligero(2, 10, Hash.POSEIDON2_GOLDILOCKS)
    taken(open_device("cpu"), scheme, statement(FIELDS["goldilocks.2"], 6, 1))


@pytest.mark.parametrize("variables", [0, 1, 2, 5, 9])
def test_any_size(variables: int) -> None:
    for name, claims in (("m31.4", 1), ("goldilocks.2", 3)):
        for log_blowup in (1, 2, 3):
            instance = statement(FIELDS[name], variables, claims)
            taken(open_device("cpu"), Ligero(log_blowup, 20), instance)


def test_gpu_code_accepts_proofs(gpu_device: AnyDevice) -> None:
    taken(gpu_device, Ligero(column_bits=20), statement(M31_4, 7, 2))


def test_paths_use_sibling_digests() -> None:
    paths = Paths(5, 4)
    for places in ([0, 1, 2, 3], [3, 8, 17, 31], [0, 10, 11, 30]):
        rows, count = paths.rows(places)
        assert count == len(siblings(5, places))
        assert rows[-1, 2] == paths.root
        computed = rows[rows[:, 0] != 0xFFFFFFFF]
        assert len({*computed[:, :2].flat}) == 2 * len(computed) == 4 + count + len(computed) - 1


def errors(
    checker: OpeningChecker, scheme: Ligero, instance: Statement, proof: bytes
) -> list[Exception | None]:
    """Return the errors of both verifiers."""
    raised: list[Exception | None] = []
    calls: Any = (
        lambda: verify(scheme, instance, proof),
        lambda: check(checker, scheme, instance, proof),
    )
    for call in calls:
        try:
            call()
            raised.append(None)
        except (VerificationError, InputError) as error:
            raised.append(error)
    return raised


@pytest.mark.parametrize("hash", one_and_others([Hash.POSEIDON2_M31, Hash.SHA3_256]))
def test_verifiers_reject_changed_proofs_alike(hash: Hash) -> None:
    """Digests of a hash over a field are elements, of which there is one encoding."""
    is_slow = hash.is_algebraic
    scheme, instance = (
        Ligero(2, 2 if is_slow else 6, hash),
        statement(M31_4, 4 if is_slow else 6, 2),
    )
    proof = prove(scheme, open_device("cpu"), instance)[0]
    checker = OpeningChecker("cpu", scheme.shape(instance.field, instance.variables))
    p = M31_4.modulus.value
    changed = [proof[:-1], proof + b"\0", b"", proof[32:], proof * 2, proof[:32], proof[:-32]]
    for place in range(0, len(proof), 5 if is_slow else 1):
        byte = proof[place] ^ 1 << place % 8
        changed.append(proof[:place] + bytes([byte]) + proof[place + 1 :])
    for place in range(32, len(proof) - 3, 4):
        number = int.from_bytes(proof[place : place + 4], "little") + p
        if number < 1 << 32:
            changed.append(proof[:place] + number.to_bytes(4, "little") + proof[place + 4 :])
    for wrong in changed:
        first, second = errors(checker, scheme, instance, wrong)
        assert first is not None
        assert type(first) is type(second)
        assert str(first) == str(second)
    assert errors(checker, scheme, instance, proof) == [None, None]


def test_false_claims_are_rejected() -> None:
    """Only the comparison with the combination fails; the rest is honest."""
    scheme, instance = Ligero(column_bits=6), statement(M31_4, 6, 2)
    first, second = instance.claims
    false = Claim(first.point, (first.value[0] ^ 1, *first.value[1:]))
    instance = instance._replace(claims=[false, second])
    proof = model(instance, bits=6).prove(begun(), plain(instance))
    checker = OpeningChecker("cpu", scheme.shape(instance.field, instance.variables))
    for error in errors(checker, scheme, instance, proof):
        assert isinstance(error, VerificationError)
        assert "does not match the claims" in str(error)


def test_toy_field_verdicts_match_the_reference() -> None:
    """Some proofs with wrong columns are accepted over the toy field."""
    field = FIELDS["toy.17.4"]
    instance, scheme = statement(field, 5, 1), Ligero(column_bits=1)
    checker, cheater = OpeningChecker("cpu", scheme.shape(field, 5)), model(instance, bits=1)
    for word in cheater.words:
        word[:7] = [(entry + 1) % 17 for entry in word[:7]]
    cheater.hash_columns()
    verdicts = []
    for trial in range(40):
        name = str(trial).encode()
        proof = cheater.prove(begun(name), plain(instance))
        for verifier in (0, 1):
            try:
                if verifier:
                    check(checker, scheme, instance, proof, name)
                else:
                    verify(scheme, instance, proof, transcript=begun(name))
                verdicts.append(True)
            except VerificationError:
                verdicts.append(False)
    assert verdicts[::2] == verdicts[1::2]
    assert 0 < sum(verdicts) < 80


def test_faulty_devices_are_detected() -> None:
    scheme, instance = Ligero(column_bits=6), statement(M31_4, 6, 2)
    proof = prove(scheme, open_device("cpu"), instance)[0]
    shape, idle, device = (
        scheme.shape(instance.field, instance.variables),
        Idle(open_device("cpu")),
        SkippingDevice(),
    )
    with pytest.raises(DeviceError, match="without computing the check"):
        check(OpeningChecker(idle, shape), scheme, instance, proof)  # type: ignore[arg-type]
    names: set[str] = set()
    device.leaves = lambda name: names.add(name) or 0  # type: ignore[func-returns-value]
    checker = OpeningChecker(device, shape)
    check(checker, scheme, instance, proof)
    assert len(names) == 6
    for name in names:
        for count in (1, 1 << 20):
            device.leaves = lambda kernel, skipped=name, many=count: (
                many if kernel == skipped else 0
            )
            with pytest.raises(DeviceError, match="without computing the check"):
                check(checker, scheme, instance, proof)
    device.leaves = lambda _: 0
    check(checker, scheme, instance, proof)
