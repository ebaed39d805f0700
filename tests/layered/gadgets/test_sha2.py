"""SHA-256 against hashlib; no word, carry or bit of the advice may be another."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest

from quod.errors import InputError, MismatchError
from quod.field import NAMED, Modulus
from quod.layered import Layout, Program
from quod.layered.gadgets import assert_signs, bytes_to_signs, sha256
from tests.layered.evaluation import finished, gates, outputs


def hashing(length: int) -> Layout:
    program = Program(NAMED["m31"])
    message = program.inputs("message", 8 * length)
    assert_signs(program, message)
    return finished(program, sha256(program, message))


def values_of(data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).digest()
    return {"message": bytes_to_signs(data), "result": bytes_to_signs(digest)}


@pytest.fixture(scope="module")
def short() -> Layout:
    return hashing(3)


def test_a_block_of_many_messages(short: Layout) -> None:
    """Extreme ones and others at once."""
    messages = [b"abc", bytes(3), b"\xff" * 3, b"\x80\x00\x01"]
    rows = [values_of(data) for data in messages]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    short.inputs(columns, instances=4)
    inputs = short.inputs(rows[0])
    assert not any(outputs(short.circuit, inputs, short.public(rows[0])))
    with pytest.raises(MismatchError, match=r"result\[8\]"):
        changed = list(rows[0]["result"])
        changed[8] *= -1
        short.inputs({**rows[0], "result": changed})
    with pytest.raises(MismatchError, match=r"signs\[4\] does not hold: 0 is not 1"):
        short.inputs({**rows[0], "message": [*rows[0]["message"][:4], 0, *[1] * 19]})


def test_layer_and_gate_counts(short: Layout) -> None:
    assert len(short.circuit.layers) == 2
    assert sum(gates(short.circuit).values()) < 75_000


def test_wrong_advice_is_rejected(short: Layout) -> None:
    """Any one value changed: its sign, to nothing, or by what would keep a sum of a word."""
    values = values_of(b"abc")
    inputs, public = short.inputs(values), short.public(values)
    generator, p = random.Random(1), short.circuit.field.value
    used = 24 + 48 * 36 + 64 * (38 + 38) + 8 * 34
    assert used <= len(inputs)
    for change in (lambda x: -x, lambda x: 0, lambda x: x + 2) * 3:
        place = generator.randrange(24, used)
        changed = list(inputs)
        changed[place] = change(changed[place]) % p
        assert any(outputs(short.circuit, changed, public)), place


@pytest.mark.thorough
def test_two_blocks() -> None:
    data = bytes(range(56))
    layout = hashing(len(data))
    values = values_of(data)
    layout.inputs(values)
    with pytest.raises(MismatchError):
        layout.inputs({**values, "result": bytes_to_signs(hashlib.sha256(b"").digest())})


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match="more than 20 bits"):
        sha256(Program(Modulus("toy", 65537)), [])
    program = Program(NAMED["m31"])
    with pytest.raises(InputError, match="whole bytes"):
        sha256(program, [program.constant(1)])
