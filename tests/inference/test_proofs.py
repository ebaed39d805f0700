"""Inference proofs: honest ones are accepted on every device, others are rejected."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quod.inference.prover
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.plain_element import PlainElement
from quod.frozen import replace
from quod.inference import Activations, Prover, error_terms, run, verify
from quod.inference.perceptron import clamped
from quod.inference.protocol import matrix_at, pair_at
from quod.inference.statement import FIELDS, SCHEME, VerifyingKey, begin
from quod.sumcheck.eq_reference import equalities
from quod.transcript import Transcript
from tests.inference.networks import image_rows, perceptron_of
from tests.support.webgpu_quick import is_software

prover: Any = quod.inference.prover

FIELD = FIELDS[0]
WIDTHS = (9, 5, 4, 3)
COUNT = 3


@pytest.fixture(scope="module")
def shared_prover() -> Prover:
    return Prover("cpu", perceptron_of(WIDTHS, seed=1))


@pytest.fixture(scope="module")
def images() -> Any:
    return image_rows(COUNT, WIDTHS[0], seed=2)


@pytest.fixture(scope="module")
def logits(shared_prover: Prover, images: Any) -> Any:
    return run("cpu", shared_prover.perceptron, images).logits


@pytest.fixture(scope="module")
def proof(shared_prover: Prover, images: Any) -> bytes:
    return shared_prover.prove(images).proof


def test_honest_proof_is_accepted(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    verify(shared_prover.key, images, logits, proof)
    shared_prover.key.check_weights()
    assert sum(error_terms(shared_prover.key, COUNT).values()) < 2**-100


@pytest.mark.parametrize("count", [1, 5])
def test_any_number_of_images(shared_prover: Prover, count: int) -> None:
    batch = image_rows(count, WIDTHS[0], seed=count)
    inference = shared_prover.prove(batch)
    verify(shared_prover.key, batch, inference.logits, inference.proof)
    with pytest.raises((VerificationError, InputError)):
        verify(
            shared_prover.key,
            batch[:1].repeat(2 * count, 0),
            inference.logits.repeat(2, 0),
            inference.proof,
        )


@pytest.mark.thorough
def test_one_hidden_layer_and_five() -> None:
    for widths in ((2, 3, 2), (3, 2, 2, 3, 2, 3, 2)):
        prover_of_widths = Prover("cpu", perceptron_of(widths, seed=5))
        inference = prover_of_widths.prove(image_rows(2, widths[0], seed=1))
        verify(
            prover_of_widths.key,
            image_rows(2, widths[0], seed=1),
            inference.logits,
            inference.proof,
        )


def test_the_same_bytes_on_every_device(
    gpu_device: AnyDevice, shared_prover: Prover, images: Any, proof: bytes
) -> None:
    if gpu_device.name == "emulated" or (gpu_device.kind == "webgpu" and is_software()):
        pytest.skip("slow in software; other tests cover its kernels")
    other = Prover(gpu_device, shared_prover.perceptron)
    assert other.key == shared_prover.key
    assert other.prove(images).proof == proof


def test_other_images_and_logits(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    for at in np.ndindex(images.shape):
        wrong = images.copy()
        wrong[at] ^= 1
        with pytest.raises(VerificationError):
            verify(shared_prover.key, wrong, logits, proof)
        if at[0]:
            break
    for at in np.ndindex(logits.shape):
        wrong = logits.copy()
        wrong[at] += 1
        with pytest.raises(VerificationError):
            verify(shared_prover.key, images, wrong, proof)
    assert len(np.unique(logits, axis=0)) == COUNT
    for others in ((images[::-1], logits), (images, logits[::-1]), (images[::-1], logits[::-1])):
        with pytest.raises(VerificationError):
            verify(shared_prover.key, *others, proof)


def test_damaged_proofs(shared_prover: Prover, images: Any, logits: Any, proof: bytes) -> None:
    generator = random.Random(1)
    places = [*range(0, 40, 3), *generator.sample(range(len(proof)), 20)]
    for place in places:
        wrong = bytearray(proof)
        wrong[place] ^= 1 << generator.randrange(8)
        with pytest.raises((VerificationError, InputError)):
            verify(shared_prover.key, images, logits, bytes(wrong))
    for end in (0, 1, 3, 4, 36, len(proof) - 1):
        with pytest.raises(InputError, match="the proof ends"):
            verify(shared_prover.key, images, logits, proof[:end])
    with pytest.raises(InputError, match="more behind the last part"):
        verify(shared_prover.key, images, logits, proof + bytes(4))
    with pytest.raises(InputError, match="ends within the part that begins here"):
        verify(shared_prover.key, images, logits, proof + b"\x01")


def changed(
    activations: Activations, what: str, at: tuple[int, ...], difference: int
) -> Activations:
    """With one activation changed, and nothing that follows from it."""
    if what == "logits":
        logits = activations.logits.copy()
        logits[at] += difference
        return replace_in(activations, logits=logits)
    arrays = [array.copy() for array in getattr(activations, what)]
    arrays[0][at] += difference
    return replace_in(activations, **{what: tuple(arrays)})


def replace_in(activations: Activations, **parts: Any) -> Activations:
    names = ("quotients", "remainders", "outputs", "logits")
    return Activations(*(parts.get(name, getattr(activations, name)) for name in names))


def shifted_quotient(activations: Activations) -> Activations:
    """A quotient one less, and its remainder as much more: the sum is right, the remainder is not
    below 2^24."""
    quotients, remainders = activations.quotients[0].copy(), activations.remainders[0].copy()
    quotients[0, 0] -= 1
    remainders[0, 0] += 1 << 24
    return replace_in(
        activations,
        quotients=(quotients, *activations.quotients[1:]),
        remainders=(remainders, *activations.remainders[1:]),
        outputs=(clamped(quotients), *activations.outputs[1:]),
    )


CHEATS: dict[str, Callable[[Activations], Activations]] = {
    "a logit": lambda activations: changed(activations, "logits", (0, 1), 1),
    "an activation": lambda activations: changed(activations, "outputs", (1, 2), 1),
    "a rescaled sum": lambda activations: changed(activations, "quotients", (2, 0), -1),
    "a remainder": lambda activations: changed(activations, "remainders", (0, 3), 1),
    "a remainder that is too large": shifted_quotient,
    "a sum and its activation": lambda activations: replace_in(
        changed(activations, "quotients", (0, 0), 1),
        outputs=(
            clamped(changed(activations, "quotients", (0, 0), 1).quotients[0]),
            *activations.outputs[1:],
        ),
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheating_prover(
    name: str, shared_prover: Prover, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prover continues from a false claim, and its proof is rejected."""
    lie = CHEATS[name](run("cpu", shared_prover.perceptron, images))
    original = prover.lookups.multiplicities

    def counted(*arguments: Any) -> Any:
        """Lookups that are not in the table are not counted, as a cheat would leave them out."""
        try:
            return original(*arguments)
        except InputError:
            fine = run("cpu", shared_prover.perceptron, images)
            honest = prover._Writer(
                shared_prover, images, fine, begin(shared_prover.key, images, fine.logits)
            )
            honest.commit()
            table = arguments[3]
            layout = shared_prover.key.layout(len(images))
            return honest._counts[
                layout.limb_counts if table is prover.LIMBS else layout.pair_counts
            ]

    monkeypatch.setattr(prover, "run", lambda *_: lie)
    with pytest.raises((DeviceError, InputError)):
        shared_prover.prove(images)  # its own check
    taken: list[bytes] = []
    monkeypatch.setattr(prover, "verify", lambda *arguments, **_: taken.append(arguments[-1]))
    monkeypatch.setattr(prover.lookups, "multiplicities", counted)
    monkeypatch.setattr(prover._Writer, "_sumcheck", unchecked_sumcheck)
    with pytest.raises((DeviceError, InputError, VerificationError)):
        shared_prover.prove(images)
        verify(shared_prover.key, images, lie.logits, taken[0])


def unchecked_sumcheck(self: Any, statement: Any, tables: Any) -> Any:
    """Whatever the sum is that was to be shown."""
    proof = prover.sumchecks.prove(
        self._device, FIELD, prover.PRODUCT, tables, point=statement.point,
        transcript=self.transcript, allow_bits=0,
    )  # fmt: skip
    self._parts.append(proof.data)
    return proof.reduced


def test_another_perceptron_under_the_same_key(shared_prover: Prover, images: Any) -> None:
    """A weight and a multiplier that are not the key's."""
    for part in ("weights", "multipliers"):
        layers = list(shared_prover.perceptron.layers)
        array = getattr(layers[1], part).copy()
        array[(0,) * array.ndim] += -1 if array[(0,) * array.ndim] > 0 else 1
        names = ("weights", "biases", "multipliers")
        layers[1] = type(layers[1])(
            *(array if name == part else getattr(layers[1], name) for name in names)
        )
        other = Prover("cpu", type(shared_prover.perceptron)(tuple(layers)))
        assert other.key.digest != shared_prover.key.digest
        inference = other.prove(images)
        with pytest.raises(VerificationError):
            verify(shared_prover.key, images, inference.logits, inference.proof)
        other.key = shared_prover.key
        with pytest.raises(DeviceError):
            other.prove(images)


def test_wrong_key_from_a_device_is_detected(
    shared_prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error blames the device, not the key."""
    other = Prover("cpu", perceptron_of(WIDTHS, seed=9)).key.weights_proof
    monkeypatch.setattr(prover, "prove_committed", lambda *_, **__: other)
    with pytest.raises(DeviceError):
        Prover("cpu", shared_prover.perceptron)


def test_weights_beyond_8_bits_are_rejected(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    """The range proof does not match the root of the weights."""
    other = Prover("cpu", perceptron_of(WIDTHS, seed=9)).key
    mixed = replace(shared_prover.key, weights_proof=other.weights_proof)
    with pytest.raises(VerificationError, match="does not match the key's"):
        mixed.check_weights()
    for _ in range(2):  # also when it was refused before
        with pytest.raises(VerificationError, match="does not match the key's"):
            verify(mixed, images, logits, proof)
    with pytest.raises(InputError, match="section weights_proof, offset 0: the proof ends"):
        verify(replace(shared_prover.key, weights_proof=b""), images, logits, proof)
    damaged = bytearray(shared_prover.key.weights_proof)
    damaged[100] ^= 1
    with pytest.raises((VerificationError, InputError)):
        replace(shared_prover.key, weights_proof=bytes(damaged)).check_weights()


def drawn(count: int) -> Any:
    transcript = Transcript()
    transcript.begin("a test")
    return transcript.challenges(FIELD, count)


def test_pair_table_evaluation_matches_its_definition() -> None:
    for bits in (8, 9, 12):
        point = drawn(bits)
        numbers = list(range(-(1 << (bits - 1)), 1 << (bits - 1)))
        expected = []
        for values in (numbers, clamped(np.array(numbers)).tolist()):
            total = PlainElement.zero(FIELD)
            for weight, value in zip(equalities(FIELD, point), values, strict=True):
                total += weight * value
            expected.append(total)
        assert list(pair_at(FIELD, point)) == expected


def test_a_matrix_at_a_point() -> None:
    numbers = np.array([[3, -1, 4], [1, -5, 9], [2, 6, -5]])
    rows, columns = (drawn(4)[at::2] for at in (0, 1))
    padded = np.zeros((4, 4), np.int64)
    padded[:3, :3] = numbers
    padded[3] = padded[2]
    total = PlainElement.zero(FIELD)
    for weight, row in zip(equalities(FIELD, rows), padded.tolist(), strict=True):
        for other, value in zip(equalities(FIELD, columns), row, strict=True):
            total += weight * other * value
    assert matrix_at(FIELD, numbers, rows, columns) == total


@pytest.mark.parametrize(
    "wrong",
    [{"root": b""}, {"root": 32}, {"widths": (2, 3)}, {"widths": [9, 5, 4, 3]}, {"table_bits": 7},
     {"biases": ()}, {"biases": ((0,) * 5, (0,) * 4, (0,) * 2)}, {"multipliers": ((1,) * 5,)},
     {"multipliers": ((-1,) * 5, (1,) * 4)}, {"widths": (9, 5, 4, 5000)}, {"widths": (1,) * 11}],
)  # fmt: skip
def test_invalid_keys_are_rejected(shared_prover: Prover, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(shared_prover.key, **wrong)


def test_a_key_of_numbers_of_numpy(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    """Products of such numbers would wrap around, or fail."""
    key = shared_prover.key

    def rows(matrix: Any) -> Any:
        return tuple(tuple(np.int32(number) for number in row) for row in matrix)

    same = replace(
        key, widths=tuple(np.uint16(width) for width in key.widths),
        table_bits=np.int8(key.table_bits), biases=rows(key.biases),
        multipliers=rows(key.multipliers),
    )  # fmt: skip
    assert same == key
    assert {type(n) for row in (same.widths, *same.biases, *same.multipliers) for n in row} == {int}
    verify(same, images, logits, proof)


def test_error_offsets_count_from_the_proof_start(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    """Errors in the second part, behind 4 + 32 bytes of the commitment and a length."""
    wrong = bytearray(proof)
    wrong[40:48] = bytes([255] * 8)
    with pytest.raises(InputError, match="offset 40: coefficient 0 of element 0") as caught:
        verify(shared_prover.key, images, logits, bytes(wrong))
    assert caught.value.offset == 40


# The claims of six widths take one opening more than those of three.
@pytest.mark.parametrize(
    "widths",
    [
        (2, 2, 2),
        pytest.param((2,) * 6, marks=pytest.mark.thorough),
        pytest.param((2,) * 10, marks=pytest.mark.thorough),
    ],
)
def test_every_opening_is_among_the_errors(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many layers, whose claims are opened eight at a time, and the key's own proof."""
    deep_prover, batch = Prover("cpu", perceptron_of(widths, seed=5)), image_rows(1, 2, seed=1)
    inference = deep_prover.prove(batch)
    opened: list[int] = []
    check = LigeroCommitment.check

    def counted(self: LigeroCommitment, *arguments: Any) -> None:
        opened.append(self.shape.log2_size)
        check(self, *arguments)

    monkeypatch.setattr(LigeroCommitment, "check", counted)
    verify(replace(deep_prover.key), batch, inference.logits, inference.proof)
    terms = error_terms(deep_prover.key, 1)
    expected = sum(sum(SCHEME.error_terms(FIELD, size).values()) for size in opened)
    assert sum(terms[name] for name in terms if name.startswith("openings")) == expected
    assert len(opened) == {3: 4, 6: 5, 10: 6}[len(widths)]


def test_too_many_images_are_rejected(
    shared_prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image count is checked before a device reads the images."""
    most = 1 << 24
    with pytest.raises(InputError, match=r"^16777216 images at a time are too many for this"):
        error_terms(shared_prover.key, most)
    monkeypatch.setattr("quod.inference.layout.MAX_VARIABLES", 4)
    monkeypatch.setattr(prover, "run", None)
    with pytest.raises(InputError, match=r"^2 images at a time are too many .* take fewer$"):
        shared_prover.prove(image_rows(2, shared_prover.key.widths[0], 1))


def test_arguments_that_are_refused(
    shared_prover: Prover, images: Any, logits: Any, proof: bytes
) -> None:
    key: VerifyingKey = shared_prover.key
    wrong: list[tuple[Any, ...]] = [
        (key, images[:, 1:], logits, proof),
        (key, images, logits[:1], proof), (key, images, logits.astype(float), proof),
        (key, images, logits.astype(np.uint64) + np.uint64(1 << 63), proof),
        (key, images, np.full_like(logits, -(1 << 63)), proof), (key, images, logits, None),
        (key, images, logits, bytearray(proof)), (key, None, logits, proof),
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(InputError):
            verify(*arguments)
