"""Messages and challenges inside kernels, against the transcript of the host."""

from __future__ import annotations

import hashlib
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field import EXTENSIONS, NAMED, Extension, FieldSpec, Modulus
from quod.field.any_field import field_arithmetic
from quod.field.array import from_integers, to_integers
from quod.field.element_bytes import decode, encode
from quod.hash.words import message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.transcript import Hash, Label, ProofReader, ProofWriter, Transcript
from quod.transcript.chain import Chain, challenge
from quod.transcript.elements import challenge_of, describe, most_likely

FIELDS: dict[str, FieldSpec] = {
    **{name: NAMED[name] for name in ("bn254.fr", "goldilocks", "m31", "baby_bear")},
    **{name: EXTENSIONS[name] for name in ("m31.4", "m31.3", "goldilocks.2", "koala_bear.4")},
    "toy": Modulus("toy.17", 17),
    "toy.2": Extension("toy.17.2", Modulus("toy.17", 17), (-3, 0, 1)),
}


def test_challenge_fields_match_the_documentation() -> None:
    """FIELD of all extensions with a name, of which another program has nothing else."""
    text = (Path(__file__).parents[2] / "docs" / "sumcheck.md").read_text()
    listed = dict(
        re.findall(r"^\| `([a-z_0-9.]+)` \| .* \| `([0-9,.\[\]]+)` \|$", text, re.MULTILINE)
    )
    assert listed == {name: describe(field).decode() for name, field in EXTENSIONS.items()}


@kernel
def absorb_elements(
    k: Builder, states: Pointer[U32], elements: Pointer[U32], out: Pointer[U32],
    *, spec: FieldSpec, count: int, hash: Hash,
) -> None:  # fmt: skip
    """The states after one message of `count` elements, and the challenges that they give.

    A workgroup a state.
    """
    chain, f, i = Chain(k, hash), field_arithmetic(k, spec), k.workgroup_id()
    words: list[Any] = []
    for place in range(count):
        words += message_words(f, f.load(elements, i * count + place))
    state = chain.absorbed(chain.load(states, i * 8), Label.ROUND, words)
    k.barrier()
    with k.if_(k.local_id() == 0):
        chain.store(states, i * 8, state)
        f.store(out, i, challenge(f, spec, state))


def plain(field: FieldSpec, count: int, seed: int) -> list[tuple[int, ...]]:
    """Elements, the first of them hostile."""
    generator, p = random.Random(seed), field.modulus.value
    hostile = [(0,) * field.degree, (p - 1,) * field.degree]
    drawn = [tuple(generator.randrange(p) for _ in range(field.degree)) for _ in range(count)]
    return (hostile + drawn)[:count]


def check(device: AnyDevice, field: FieldSpec, count: int, hash: Hash = Hash.SHA3_256) -> None:
    n = 5
    elements = plain(field, n * count, count)
    field_elements: Any = elements if field.degree > 1 else [c for (c,) in elements]
    transcripts = [Transcript(hash=hash, recursive=hash.is_algebraic) for _ in range(n)]
    for number, transcript in enumerate(transcripts):
        transcript.absorb(Label.PROTOCOL, bytes([number]))
    starts = [transcript.state for transcript in transcripts]
    states = np.frombuffer(b"".join(starts), np.uint32).copy()
    out = np.zeros((n, field.words), np.uint32)
    lanes = min(64, device.lanes)
    compiled = device.compile(absorb_elements, lanes=lanes, spec=field, count=count, hash=hash)
    device.launch(compiled, n, states, from_integers(field, field_elements), out)
    challenges: Any = to_integers(field, out)
    for i, transcript in enumerate(transcripts):
        transcript.absorb_elements(Label.ROUND, field, elements[i * count : (i + 1) * count])
        assert states.tobytes()[32 * i : 32 * i + 32] == transcript.state
        wanted = transcript.challenge(field)
        assert (challenges[i] if field.degree > 1 else (challenges[i],)) == wanted


@pytest.mark.parametrize(
    ("count", "name"),
    [*((count, "goldilocks.2") for count in (1, 3, 12)),
     *((12, name) for name in ("bn254.fr", "m31", "m31.4", "m31.3", "toy", "toy.2"))],
)  # fmt: skip
def test_kernels_agree_with_the_host(device: AnyDevice, count: int, name: str) -> None:
    check(device, FIELDS[name], count)


@pytest.mark.parametrize(("count", "name"), [(2, "m31.4"), (12, "bn254.fr")])
def test_kernels_agree_in_sha_256(device: AnyDevice, count: int, name: str) -> None:
    check(device, FIELDS[name], count, Hash.SHA_256)


@pytest.mark.parametrize("name", ["m31.4", "goldilocks.2"])
def test_lanes_that_share_a_state_agree(gpu_device: AnyDevice, name: str) -> None:
    """Instances of a subgroup hold a word each, interpreted too; results are the same."""
    check(gpu_device, FIELDS[name], 2)


def test_sha_256_on_gpus(gpu_device: AnyDevice) -> None:
    check(gpu_device, FIELDS["m31.4"], 2, Hash.SHA_256)


@pytest.mark.parametrize(
    ("hash", "function"), [(Hash.SHA3_256, hashlib.sha3_256), (Hash.SHA_256, hashlib.sha256)]
)
def test_the_chain_is_a_hash_of_state_header_and_message(hash: Hash, function: Any) -> None:
    transcript = Transcript(hash=hash)
    transcript.absorb(Label.CLAIM, b"abc")
    expected = function(bytes(32) + b"\x03\x00\x00\x08" + b"abc").digest()
    assert transcript.state == expected
    first, second = transcript.challenges(NAMED["bn254.fr"], 2)
    assert first == (int.from_bytes(expected, "little") % NAMED["bn254.fr"].value,)
    after = function(expected + bytes(4)).digest()
    assert second == (int.from_bytes(after, "little") % NAMED["bn254.fr"].value,)


def test_copies_keep_the_hash() -> None:
    transcript = Transcript(hash=Hash.SHA_256)
    transcript.begin("test 1")
    assert (
        transcript.state
        == hashlib.sha256(bytes(32) + b"\x0e\x00\x00\x01" + b"test 1 sha-256").digest()
    )
    copied = transcript.copy()
    copied.resume(transcript.state)
    copied.absorb(Label.CLAIM, b"abc")
    transcript.absorb(Label.CLAIM, b"abc")
    assert copied.state == transcript.state


def test_every_byte_and_message_boundary_changes_the_challenge() -> None:
    def state(*messages: bytes) -> bytes:
        transcript = Transcript()
        for message in messages:
            transcript.absorb(Label.VALUES, message)
        return transcript.state

    states = [
        state(b"ab", b"c"), state(b"a", b"bc"), state(b"abc"), state(b"abc", b""),
        state(b"", b"abc"), state(b"ab\0"), state(b"abd"),
    ]  # fmt: skip
    other = Transcript()
    other.absorb(Label.ROUND, b"abc")
    assert len({*states, other.state}) == len(states) + 1


@pytest.mark.parametrize("name", FIELDS)
def test_reader_accepts_only_the_written_proof(name: str) -> None:
    field = FIELDS[name]
    elements = plain(field, 5, 7)
    writer = ProofWriter(Transcript())
    writer.elements(Label.ROUND, field, elements[:2])
    writer.elements(Label.VALUES, field, elements[2:])
    proof = writer.getvalue()
    reader = ProofReader(proof, Transcript())
    assert reader.elements(Label.ROUND, field, 2) == elements[:2]
    assert reader.elements(Label.VALUES, field, 3) == elements[2:]
    reader.end()
    assert reader.transcript.state == writer.transcript.state
    with pytest.raises(InputError, match="ends at byte"):
        ProofReader(proof[:-1], Transcript()).elements(Label.ROUND, field, 5)
    late = ProofReader(proof + b"\0", Transcript())
    late.elements(Label.ROUND, field, 5)
    with pytest.raises(InputError, match="1 bytes follow"):
        late.end()
    other = field.modulus.value.to_bytes(field.modulus.bytes, "little")
    with pytest.raises(InputError, match="is not below the modulus"):
        ProofReader(other * field.degree, Transcript()).elements(Label.ROUND, field, 1)
    assert decode(field, encode(field, elements)) == elements


def test_wrong_arguments_are_refused() -> None:
    wrong: Any
    for wrong in ("text", b"short", None, bytearray(32)):
        with pytest.raises(InputError):
            Transcript(wrong)
    for wrong in ((7, b""), (Label.CLAIM, "text"), (Label.CLAIM, None)):
        with pytest.raises(InputError):
            Transcript().absorb(*wrong)
    with pytest.raises(InputError, match="take its digest"):
        Transcript().absorb(Label.CLAIM, bytes(1 << 24))
    for wrong in ("text", None, 5):
        with pytest.raises(InputError):
            ProofReader(wrong, Transcript())
    wide = Modulus("p-521", (1 << 521) - 1)
    with pytest.raises(InputError, match="at most four coefficients and 256 bits"):
        Transcript().challenge(wide)


def test_challenges_are_nearly_uniform() -> None:
    for field in FIELDS.values():
        order = field.modulus.value**field.degree
        assert 1 <= most_likely(field) * order < (2 if field.degree < 3 else 3)
    toy, counts = FIELDS["toy"], [0] * 17
    for number in range(17 * 200):
        counts[challenge_of(toy, hashlib.sha256(number.to_bytes(4, "big")).digest())[0]] += 1
    assert min(counts) > 140
    assert max(counts) < 260
