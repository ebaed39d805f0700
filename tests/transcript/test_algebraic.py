"""Transcripts of hashes over a field, against the published permutation and inside kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.codegen import emit
from quod.codegen.ptx.machine import ptx_machine
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.field.element_bytes import encode
from quod.hash.algebraic import LOG_TAGS, RUN_ELEMENTS
from quod.hash.function import DIGEST_BYTES
from quod.hash.table import hash_named, recursive_hash
from quod.kernel import U32, Builder, Pointer, kernel
from quod.layered import Program
from quod.layered.gadgets import POSEIDON2
from quod.transcript import Hash, Label, ProofReader, ProofWriter, Transcript
from tests.layered.evaluation import finished, holds
from tests.support.ptx_assembler import assemble
from tests.transcript.test_chain import absorb_elements, check, plain

FIELDS: dict[str, FieldSpec] = {
    name: EXTENSIONS[name] for name in ("m31.4", "baby_bear.4", "koala_bear.4", "goldilocks.2")
}
M31 = NAMED["m31"]


def model(field: str, state: list[int], label: int, kind: int, values: list[int]) -> list[int]:
    """The state after a message, as docs/sumcheck.md says it, by the gadget's permutation."""
    permutation, p = POSEIDON2[field], NAMED[field].value
    half = permutation.width // 2
    blocks = [values[at : at + half] for at in range(0, len(values), half)] or [[]]
    for number, block in enumerate(blocks):
        if number == len(blocks) - 1:
            tag = 1 + len(block) + 16 * kind + 32 * label
            state = [(state[0] + tag) % p, *state[1:]]
        filled = block + [0] * (half - len(block))
        state = permutation.compress_numbers(state, filled)
    return state


def as_bytes(field: str, values: list[int]) -> bytes:
    return encode(NAMED[field], [(value,) for value in values])


def of_bytes(field: str, data: bytes) -> list[int]:
    size = (NAMED[field].value.bit_length() - 1) // 8
    marked = data + b"\1"
    return [int.from_bytes(marked[at : at + size], "little") for at in range(0, len(marked), size)]


def transcript_of(field: FieldSpec) -> Transcript:
    return Transcript(hash=recursive_hash(field), recursive=True)


@pytest.mark.parametrize("name", FIELDS)
def test_messages_are_chained_by_compression(name: str) -> None:
    field = FIELDS[name]
    base, transcript = field.modulus.name, transcript_of(field)
    count = DIGEST_BYTES // field.modulus.bytes
    state, generator = [0] * count, random.Random(name)
    for size in (0, 1, 2, 3, 4, 6, 7):
        data = generator.randbytes(size)
        transcript.absorb(Label.PROTOCOL, data)
        state = model(base, state, 1, int(not data), of_bytes(base, data) if data else [])
        assert transcript.state == as_bytes(base, state)
        elements = plain(field, size, size)
        transcript.absorb_elements(Label.ROUND, field, elements)
        state = model(base, state, 10, 1, [c for element in elements for c in element])
        assert transcript.state == as_bytes(base, state)
    first, second = transcript.challenges(field, 2)
    each = 4 // field.degree * (2 if field.modulus.bytes == 4 else 1)
    for challenge in (first, second):
        parts = [state[at : at + each] for at in range(0, each * field.degree, each)]
        bits = 8 * field.modulus.bytes
        wanted = [sum(v << (bits * i) for i, v in enumerate(part)) for part in parts]
        assert challenge == tuple(value % field.modulus.value for value in wanted)
        state = model(base, state, 0, 1, [])


@pytest.mark.parametrize(
    ("count", "name"),
    [(1, "m31.4"), (3, "m31.4"), (1, "baby_bear.4"), (3, "goldilocks.2"),
     pytest.param(3, "koala_bear.4", marks=pytest.mark.thorough)],
)  # fmt: skip
def test_kernels_agree_with_the_host(device: AnyDevice, count: int, name: str) -> None:
    check(device, FIELDS[name], count, recursive_hash(FIELDS[name]))


@pytest.mark.parametrize(
    "name", ["m31.4", pytest.param("goldilocks.2", marks=pytest.mark.thorough)]
)
def test_gpu_code_agrees(gpu_device: AnyDevice, name: str) -> None:
    check(gpu_device, FIELDS[name], 2, recursive_hash(FIELDS[name]))


@kernel
def absorb_some(
    k: Builder, lengths: Pointer[U32], states: Pointer[U32], messages: Pointer[U32],
    *, hash: Hash, most: int,
) -> None:  # fmt: skip
    """The states after so many words of messages, a workgroup a state."""
    chain, i = hash.in_kernel(k), k.workgroup_id()
    state = k.load(states, i * 8, 8)
    (length,) = k.load(lengths, i)
    header = (length << 2) | (int(Label.VALUES) << 24)
    absorbed = chain.absorbed_prefix(state, header, k.load(messages, i * most, most), length)
    k.barrier()
    with k.if_(k.local_id() == 0):
        k.store(states, i * 8, *absorbed)


@pytest.mark.parametrize("name", ["m31.4", "goldilocks.2"])
def test_messages_of_unknown_length(device: AnyDevice, name: str) -> None:
    field = FIELDS[name]
    hash, each = recursive_hash(field), field.modulus.bytes // 4
    counts = [0, 1, 7, 8, 9, 16, 17, 20] if each == 1 else [0, 1, 3, 4, 5, 8, 9, 10]
    most = max(counts) * each
    messages = np.zeros((len(counts), most), np.uint32)
    transcripts = []
    for number in range(len(counts)):
        transcript = transcript_of(field)
        transcript.absorb(Label.PROTOCOL, bytes([number]))
        transcripts.append(transcript)
        values = plain(field.modulus, max(counts), number)
        messages[number] = np.frombuffer(encode(field.modulus, values), "<u4")
    starts = b"".join(transcript.state for transcript in transcripts)
    states = np.frombuffer(starts, "<u4").astype(np.uint32)
    compiled = device.compile(absorb_some, lanes=min(32, device.lanes), hash=hash, most=most)
    lengths = np.array(counts, np.uint32) * each
    device.launch(compiled, len(counts), lengths, states, messages.reshape(-1))
    for number, (count, transcript) in enumerate(zip(counts, transcripts, strict=True)):
        values = plain(field.modulus, max(counts), number)[:count]
        transcript.absorb_elements(Label.VALUES, field.modulus, values)
        assert states[number * 8 : number * 8 + 8].tobytes() == transcript.state


def test_a_circuit_computes_a_step_of_the_chain() -> None:
    """One `compress` of the gadget, in as many layers as there are rounds and one more."""
    field, permutation = M31, POSEIDON2["m31"]
    transcript = transcript_of(field)
    transcript.absorb(Label.PROTOCOL, b"test")
    before = np.frombuffer(transcript.state, "<u4").tolist()
    message = [value for (value,) in plain(field, 8, 3)]
    transcript.absorb_elements(Label.ROUND, field, [(value,) for value in message])
    after = np.frombuffer(transcript.state, "<u4").tolist()
    program = Program(field)
    first, *other_words = program.inputs("state", 8)
    tag = program.constant(1 + 8 + 16 + 32 * Label.ROUND)
    wires = permutation.compress(program, [first + tag, *other_words], program.inputs("message", 8))
    layout = finished(program, wires)
    assert len(layout.circuit.layers) <= 24
    assert holds(layout, {"state": before, "message": message, "result": after})


@pytest.mark.parametrize("name", ["m31", "goldilocks"])
def test_digests_of_any_length(name: str) -> None:
    """Digest runs level by level; lockstep and one after the other give the same."""
    field, half = NAMED[name], DIGEST_BYTES // NAMED[name].bytes
    hash = recursive_hash(field)

    def digest(values: list[int], level: int = 0) -> list[int]:
        start = [0, level] + [0] * (half - 2)
        runs = [values[at : at + RUN_ELEMENTS] for at in range(0, len(values), RUN_ELEMENTS)]
        digests = [model(name, start, 14, 1, run) for run in runs or [[]]]
        return (
            digests[0] if len(digests) == 1 else digest([v for f in digests for v in f], level + 1)
        )

    for count in (0, 1, RUN_ELEMENTS, RUN_ELEMENTS + 1, 4 * RUN_ELEMENTS + 3):
        values = [value for (value,) in plain(field, count, count)]
        assert hash.digest(as_bytes(name, values), field) == as_bytes(name, digest(values))
    values = [1] * RUN_ELEMENTS * 2
    inner = hash.digest(as_bytes(name, values), field)
    parts = as_bytes(name, model(name, [0] * half, 14, 1, values[:RUN_ELEMENTS])) * 2
    assert hash.digest(parts, field) != inner


def test_every_byte_and_message_boundary_changes_the_challenge() -> None:
    field = FIELDS["m31.4"]

    def state(*messages: bytes | list[int]) -> bytes:
        transcript = transcript_of(field)
        for message in messages:
            if isinstance(message, bytes):
                transcript.absorb(Label.VALUES, message)
            else:
                transcript.absorb_elements(Label.VALUES, M31, [(value,) for value in message])
        return transcript.state

    other = transcript_of(field)
    other.absorb(Label.ROUND, b"abc")
    challenges = [
        state(b"ab", b"c"), state(b"a", b"bc"), state(b"abc"), state(b"abc", b""),
        state(b"", b"abc"), state(b"abc\0"), state(b"abd"), state(b"ab\1"), state(b""),
        state(of_bytes("m31", b"abc")), state(of_bytes("m31", b"abc"), b""),
        state([0]), state([0] * 7), state([0] * 8), state([0] * 9), state([0] * 16),
        state([0] * 8, []), state([0] * 8, [0] * 8), other.state,
    ]  # fmt: skip
    assert len(set(challenges)) == len(challenges)


def test_elements_of_another_field_are_bytes() -> None:
    field = NAMED["bn254.fr"]
    transcript, other = transcript_of(M31), transcript_of(M31)
    transcript.absorb_elements(Label.VALUES, field, [(5,)])
    other.absorb(Label.VALUES, (5).to_bytes(32, "little"))
    assert transcript.state == other.state
    assert Hash.POSEIDON2_M31.digest(b"\5" + bytes(31), field) == Hash.POSEIDON2_M31.digest(
        b"\5" + bytes(31)
    )


def test_a_proof_reads_back() -> None:
    field = FIELDS["m31.4"]
    elements = plain(field, 5, 7)
    writer = ProofWriter(transcript_of(field))
    writer.elements(Label.ROUND, field, elements)
    writer.encoded(Label.VALUES, field, encode(field, elements))
    writer.digested(Label.COMMITMENT, M31, as_bytes("m31", [1, 2, 3]))
    writer.message(Label.OPENING, b"text")
    reader = ProofReader(writer.getvalue(), transcript_of(field))
    assert reader.elements(Label.ROUND, field, 5) == elements
    assert reader.elements(Label.VALUES, field, 5) == elements
    assert reader.digested_words(Label.COMMITMENT, M31, 3).ravel().tolist() == [1, 2, 3]
    assert reader.message(Label.OPENING, 4) == b"text"
    reader.end()
    assert reader.transcript.state == writer.transcript.state


def test_algebraic_transcript_is_opt_in() -> None:
    hash = Hash.POSEIDON2_M31
    with pytest.raises(InputError, match="pass recursive=True"):
        Transcript(hash=hash)
    with pytest.raises(InputError, match="omit recursive"):
        Transcript(recursive=True)
    wrong: Any = "yes"
    with pytest.raises(InputError, match="recursive"):
        Transcript(hash=hash, recursive=wrong)
    transcript = Transcript(hash=hash, recursive=True)
    transcript.begin("test 1")
    copied = transcript.copy()
    copied.resume(transcript.state)
    assert (copied.hash, copied.state) == (hash, transcript.state)
    with pytest.raises(InputError, match="not below the modulus of m31"):
        Transcript(b"\xff" * 32, hash=hash, recursive=True)
    with pytest.raises(InputError, match="in m31 and its extensions, not in goldilocks"):
        transcript.challenge(NAMED["goldilocks"])
    for wrong in (b"\xff" * 4, b"abc"):
        with pytest.raises(InputError):
            transcript.absorb(Label.VALUES, wrong, M31)
        with pytest.raises(InputError):
            hash.digest(wrong, M31)
    with pytest.raises(InputError, match=r"no hash over bn254\.fr"):
        recursive_hash(NAMED["bn254.fr"])


def test_bits() -> None:
    """Half of the state's, less those of differences of tags."""
    assert all(label < 1 << (LOG_TAGS - 5) for label in Label)
    expected = {
        "sha3-256": 128, "sha-256": 128, "poseidon2-m31": 118, "poseidon2-baby_bear": 118,
        "poseidon2-koala_bear": 118, "poseidon2-goldilocks": 122,
    }  # fmt: skip
    assert {name: hash_named(name).collision_bits for name in expected} == expected


@pytest.mark.parametrize(("name", "arch"), [("m31.4", "sm_90a"), ("goldilocks.2", "sm_80")])
def test_ptx_is_assembled(name: str, arch: str) -> None:
    machine = ptx_machine(64, arch)
    hash = recursive_hash(FIELDS[name])
    text = emit(absorb_elements, "ptx", machine, spec=FIELDS[name], count=2, hash=hash)
    assert assemble(text, arch)
