"""Keccak against hashlib, and the gates that it costs."""

from __future__ import annotations

import hashlib
import random

import pytest

from quod.errors import InputError
from quod.field import NAMED, Modulus
from quod.hash import keccak as reference
from quod.layered import Layout, Program
from quod.layered.gadgets import bytes_to_signs, keccak, keccak_f, sha3_256
from tests.layered.evaluation import finished, gates, holds, outputs
from tests.support.thorough import one_and_others

MESSAGE = b"quod"


@pytest.fixture(scope="module")
def hashing() -> Layout:
    """SHA3-256 of four bytes."""
    program = Program(NAMED["m31"])
    return finished(program, sha3_256(program, program.inputs("message", 32)))


@pytest.mark.thorough
def test_sha3_matches_hashlib(hashing: Layout) -> None:
    digest = bytes_to_signs(hashlib.sha3_256(MESSAGE).digest())
    values = {"message": bytes_to_signs(MESSAGE), "result": digest}
    inputs, public = hashing.inputs(values), hashing.public(values)
    assert not any(outputs(hashing.circuit, inputs, public))
    inputs[5] = -inputs[5] % hashing.circuit.field.value
    # About half of the digest is wrong.
    assert 90 < sum(map(bool, outputs(hashing.circuit, inputs, public))) < 166


@pytest.mark.thorough
def test_sha3_gate_count(hashing: Layout) -> None:
    """Six layers a round, but for the first ones, where most of the state is known."""
    assert len(hashing.circuit.layers) == 140
    counts = gates(hashing.circuit)
    assert counts["multiply"] <= 24 * 8000
    assert counts["add"] <= 180_000


def shortened(monkeypatch: pytest.MonkeyPatch, rounds: list[int]) -> None:
    """Fewer rounds, of the gadget and of the host."""
    for module in (keccak, reference):
        monkeypatch.setattr(module, "round_constants", lambda: rounds)


def lanes_to_signs(lanes: list[int]) -> list[int]:
    return bytes_to_signs(b"".join(lane.to_bytes(8, "little") for lane in lanes))


@pytest.mark.parametrize(
    "field", one_and_others([Modulus("toy", 17), NAMED["m31"]]), ids=lambda field: field.name
)
def test_rounds_of_a_whole_state(field: Modulus, monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 products a round in six layers, and what a round makes of random and extreme states."""
    rounds = reference.round_constants()[:2]
    shortened(monkeypatch, rounds)
    program = Program(field)
    layout = finished(program, keccak_f(program, program.inputs("state", 1600)))
    assert len(layout.circuit.layers) == 12 + 1
    counts = gates(layout.circuit)
    assert counts["multiply"] == 2 * 8000
    assert counts["constant"] == 2 * 1600 + 1600
    assert counts["add"] <= 2 * (3200 + 4900) + 1600
    generator = random.Random(4)
    for lanes in ([0] * 25, [(1 << 64) - 1] * 25, [generator.getrandbits(64) for _ in range(25)]):
        result = lanes_to_signs(reference.permuted(lanes))
        assert holds(layout, {"state": lanes_to_signs(lanes), "result": result})
        result[generator.randrange(1600)] *= -1
        assert not holds(layout, {"state": lanes_to_signs(lanes), "result": result})


@pytest.mark.parametrize("length", [0, 135, 136, 137])
def test_padding_and_blocks(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sponge of one round, against the same of bytes."""
    rounds = reference.round_constants()[:1]
    shortened(monkeypatch, rounds)
    data = random.Random(length).randbytes(length)
    padded = bytearray(data + bytes(136 - length % 136))
    padded[length] ^= 0x06
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), 136):
        for at in range(17):
            place = start + 8 * at
            lanes[at] ^= int.from_bytes(padded[place : place + 8], "little")
        lanes = reference.permuted(lanes)
    program = Program(NAMED["m31"])
    message = program.inputs("message", 8 * length) if length else []
    digest = sha3_256(program, message)
    if not length:
        expected = [sign % program.field.value for sign in lanes_to_signs(lanes)[:256]]
        assert [wire.constant for wire in digest] == expected
        return
    layout = finished(program, digest)
    values = {"message": bytes_to_signs(data), "result": lanes_to_signs(lanes)[:256]}
    layout.inputs(values)


@pytest.mark.thorough
def test_rounds_with_committed_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the state committed to after each round, and between blocks."""
    rounds = reference.round_constants()[:3]
    shortened(monkeypatch, rounds)
    program = Program(NAMED["m31"])
    state = program.inputs("state", 1600)
    layout = finished(program, keccak_f(program, state, committed_every=1))
    assert len(layout.circuit.layers) == 6 + 1
    assert gates(layout.circuit)["multiply"] == 3 * 8000
    lanes = [random.Random(at).getrandbits(64) for at in range(25)]
    values = {
        "state": lanes_to_signs(lanes),
        "result": lanes_to_signs(reference.permuted(lanes)),
    }
    inputs, public = layout.inputs(values), layout.public(values)
    assert not any(outputs(layout.circuit, inputs, public))
    # A bit between that is another, or no bit at all.
    for place, value in ((1600, -inputs[1600]), (3300, 0), (4799, inputs[4799] + 2)):
        changed = list(inputs)
        changed[place] = value % program.field.value
        assert any(outputs(layout.circuit, changed, public))

    shortened(monkeypatch, rounds[:1])
    program = Program(NAMED["m31"])
    digest = sha3_256(program, program.inputs("message", 8 * 136), committed_every=1)
    layout = finished(program, digest)
    assert len(layout.circuit.layers) == 7 + 1
    data = bytes(range(136))
    lanes = [0] * 25
    for block in (data, b"\x06" + bytes(134) + b"\x80"):
        for at in range(17):
            lanes[at] ^= int.from_bytes(block[8 * at : 8 * at + 8], "little")
        lanes = reference.permuted(lanes)
    layout.inputs({"message": bytes_to_signs(data), "result": lanes_to_signs(lanes)[:256]})


def test_wrong_arguments() -> None:
    program = Program(NAMED["m31"])
    for wrong in ([1] * 1599, [1] * 1601, None, [None] * 1600):
        with pytest.raises(InputError):
            keccak_f(program, wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whole bytes"):
        sha3_256(program, [program.constant(1)] * 7)
