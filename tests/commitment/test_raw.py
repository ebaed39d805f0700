"""The scheme that sends the table itself."""

from __future__ import annotations

import random
import threading

import pytest

from quod.commitment import Claim, Raw
from quod.commitment.raw_prover import RawCommitter
from quod.device import open_device
from quod.device.cpu.stream import CpuSubmission
from quod.device.runtime.recording import Copy
from quod.device.runtime.stream import SubmittedStream
from quod.errors import DeviceError, InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.transcript import Label, ProofReader, ProofWriter, Transcript
from tests.support.submissions import are_under_way

FIELDS: dict[str, FieldSpec] = {
    name: EXTENSIONS.get(name) or NAMED[name] for name in ("bn254.fr", "m31.4")
}


def value_at(field: FieldSpec, table: list[int], point: list[int]) -> tuple[int, ...]:
    """At a point of the prime field, one variable after the other."""
    p = field.modulus.value
    for w in point:
        half = len(table) // 2
        table = [(a + w * (b - a)) % p for a, b in zip(table[:half], table[half:], strict=True)]
    return (table[0], *[0] * (field.degree - 1))


@pytest.mark.parametrize("name", FIELDS)
def test_consecutive_tables_in_one_proof(name: str) -> None:
    """The prover's memory holds only the last table."""
    field, device, writer = FIELDS[name], open_device("cpu"), ProofWriter(Transcript())
    committer = Raw().committer(device, field, 1)
    claims, tables = [Claim(((0,) * field.degree,), (0,) * field.degree)], ([3, 1], [4, 1])
    for table in tables:
        committer.commit(device.upload(from_integers(field.modulus, table)), writer)
        committer.open(claims, writer)
    entries = [entry for table in tables for entry in table]
    wanted = [entry.to_bytes(field.modulus.bytes, "little") for entry in entries]
    assert writer.getvalue() == b"".join(wanted)


@pytest.mark.parametrize("name", FIELDS)
def test_two_tables_before_the_first_claim(name: str) -> None:
    """The prover's memory holds only the second table when claims are made."""
    field, device, writer = FIELDS[name], open_device("cpu"), ProofWriter(Transcript())
    committer = Raw().committer(device, field, 1)
    for table in ([3, 1], [4, 1]):
        committer.commit(device.upload(from_integers(field.modulus, table)), writer)
    committer.open([Claim(((0,) * field.degree,), (0,) * field.degree)], writer)
    assert writer.getvalue() == b"".join(
        entry.to_bytes(field.modulus.bytes, "little") for entry in (3, 1, 4, 1)
    )


@pytest.mark.parametrize("name", FIELDS)
def test_claims_while_another_table_is_downloading(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    field, device, writer = FIELDS[name], open_device("cpu"), ProofWriter(Transcript())
    opened, copy = threading.Event(), CpuSubmission._copy
    claims = [Claim(((0,) * field.degree,), (0,) * field.degree)]
    committers = [Raw().committer(device, field, 1) for _ in range(2)]
    tables = [device.upload(from_integers(field.modulus, table)) for table in ([3, 1], [4, 1])]
    committers[0].commit(tables[0], writer)
    committers[0]._wait_for_download()

    def late(submission: CpuSubmission, step: Copy) -> None:
        # The digest comes before `open`, the table after it.
        if step.target.nbytes == tables[1].nbytes:
            assert opened.wait(60)
        copy(submission, step)

    monkeypatch.setattr(CpuSubmission, "_copy", late)
    committers[1].commit(tables[1], writer)
    committers[0].open(claims, writer)
    opened.set()
    committers[1].open(claims, writer)
    assert writer.getvalue() == b"".join(
        entry.to_bytes(field.modulus.bytes, "little") for entry in (3, 1, 4, 1)
    )


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("log2_size", [0, 1, 4])
def test_the_table_is_the_proof(name: str, log2_size: int) -> None:
    field, generator = FIELDS[name], random.Random(log2_size)
    p, zeros = field.modulus.value, (0,) * (field.degree - 1)
    table = [generator.randrange(p) for _ in range(1 << log2_size)]
    point = [generator.randrange(p) for _ in range(log2_size)]
    claim = Claim(tuple((w, *zeros) for w in point), value_at(field, table, point))
    scheme, device, writer = Raw(), open_device("cpu"), ProofWriter(Transcript())
    committer = scheme.committer(device, field, log2_size)
    committer.commit(device.upload(from_integers(field.modulus, table)), writer)
    committer.open([claim], writer)
    proof = writer.getvalue()
    assert proof == b"".join(entry.to_bytes(field.modulus.bytes, "little") for entry in table)

    reader = ProofReader(proof, Transcript())
    commitment = scheme.read(reader, field, log2_size)
    commitment.check([claim, claim], reader)
    reader.end()
    assert reader.transcript.state == writer.transcript.state
    false = Claim(claim.point, ((claim.value[0] + 1) % p, *zeros))
    with pytest.raises(VerificationError):
        commitment.check([claim, false], reader)
    with pytest.raises(InputError):
        scheme.read(ProofReader(proof[:-1], Transcript()), field, log2_size)
    for wrong in ([], [Claim(claim.point[1:] or claim.point * 2 or (claim.value,), claim.value)]):
        with pytest.raises(InputError):
            commitment.check(wrong, reader)
    with pytest.raises(InputError, match="bytes"):
        committer.commit(device.allocate(96), writer)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("log2_size", [2, 10])
def test_batched_tables_are_sent_like_single_ones(name: str, log2_size: int) -> None:
    """Short tables, and tables of several digest runs."""
    field, count, size = FIELDS[name], 5, 1 << log2_size
    table = from_integers(field.modulus, [7 * n + 1 for n in range(size * count)])
    device = open_device("cpu")
    committer = RawCommitter(device, field, log2_size, count=count)
    writers = [ProofWriter(Transcript()) for _ in range(count)]
    committer.commit_each(device.upload(table), writers)
    committer.end()
    for number, writer in enumerate(writers):
        alone = ProofWriter(Transcript())
        single = Raw().committer(device, field, log2_size)
        single.commit(device.upload(table[size * number : size * (number + 1)]), alone)
        single.end()
        assert writer.getvalue() == alone.getvalue()
        assert writer.transcript.state == alone.transcript.state
    if field.modulus.montgomery_radix == 1:
        # Others are canonical as messages have them, whatever they were.
        wrong = table.copy()
        wrong[-1] = 0xFFFFFFFF
        committer.commit_each(device.upload(wrong), writers)
        with pytest.raises(DeviceError, match="without computing a table"):
            committer.end()


def test_abandoned_proof_leaves_no_transfer_pending(submitted: list[SubmittedStream]) -> None:
    """The next proof reuses the memory the download reads."""
    field, device = FIELDS["m31.4"], open_device("cpu")
    committer = RawCommitter(device, field, 2)
    committer.abandon()
    table = device.upload(from_integers(field.modulus, [1, 2, 3, 4]))
    committer.commit_each(table, [ProofWriter(Transcript())])
    committer.abandon()
    assert len(submitted) == 2
    assert not are_under_way(submitted)


def test_byte_messages() -> None:
    writer = ProofWriter(Transcript())
    writer.message(Label.OPENING, b"abc")
    reader = ProofReader(writer.getvalue(), Transcript())
    with pytest.raises(InputError, match="within a message of 4 bytes"):
        reader.message(Label.OPENING, 4)
    assert reader.message(Label.OPENING, 3) == b"abc"
    assert reader.transcript.state == writer.transcript.state


def test_claims_of_an_iterator_are_checked() -> None:
    """Each claim is checked, also of what is read once."""
    field, device, writer = FIELDS["m31.4"], open_device("cpu"), ProofWriter(Transcript())
    claims = [Claim(((0,) * 4,), (value, 0, 0, 0)) for value in (3, 4)]
    committer = Raw().committer(device, field, 1)
    committer.commit(device.upload(from_integers(field.modulus, [3, 1])), writer)
    committer.open(claims[:1], writer)
    reader = ProofReader(writer.getvalue(), Transcript())
    opened = Raw().read(reader, field, 1)
    opened.check(iter(claims[:1]), reader)  # type: ignore[arg-type]
    with pytest.raises(VerificationError):
        opened.check(iter(claims), reader)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one Claim"):
        opened.check(iter([]), reader)  # type: ignore[arg-type]
