"""Faults in bits, selections and assignments."""

from __future__ import annotations

from quod import r1cs
from quod.r1cs import gadgets
from tests.r1cs.determinism.audits.records import (
    BUG_TRACKER,
    CHACHA,
    CIRCOMLIB,
    Audit,
    System,
    outputs,
    xor,
)


def mimc_output(system: System, is_mended: bool) -> None:
    """The output of a hash is assigned without a constraint."""
    result = gadgets.mimc7(system, system.private("x"), system.private("k"))
    if not is_mended:
        (result,) = system.hint(lambda value: value, [result])
    outputs(system, hash=result)


def decoder(system: System, is_mended: bool) -> None:
    """A decoder accepts any index: all flags may be 0."""
    index = system.public("index")
    flags = system.hint(lambda value: [int(value == each) for each in range(4)], [index], 4)
    for position, flag in enumerate(flags):
        system.enforce(flag, index - position, 0)
    success = system.sum(flags)
    if is_mended:
        system.assert_equal(success, 1)
    else:
        system.enforce(success, success - 1, 0)
    outputs(system, success=success, third=flags[2])


def array_xor(system: System, is_mended: bool) -> None:
    """The exclusive or of two arrays of bits is assigned without constraints."""
    a, b = system.private_bits("a", 4), system.private_bits("b", 4)
    for index, (first, second) in enumerate(zip(a, b, strict=True)):
        result = xor(system, first, second)
        if not is_mended:
            (result,) = system.hint(lambda value: value, [result])
        outputs(system, **{f"bit{index}": result})


def chacha_xor(system: System, is_mended: bool) -> None:
    """The bits of the operands of an exclusive or are not boolean."""
    words = [system.pack(system.private_bits(name, 8)) for name in "ab"]
    parts = []
    for word in words:
        bits = [system.hint_bit(word, index) for index in range(8)]
        system.assert_equal(system.pack(bits), word)
        for bit in bits if is_mended else ():
            system.boolean(bit)
        parts.append(bits)
    results = [xor(system, *pair) for pair in zip(*parts, strict=True)]
    outputs(system, xor=system.pack(results))


def one_hot(system: System, is_mended: bool) -> None:
    """Several states of a state machine are active at once."""
    state = system.public("state")
    flags = system.hint(lambda value: [int(value == each) for each in range(3)], [state], 3)
    for flag in flags:
        system.boolean(flag)
    if is_mended:
        system.assert_equal(system.sum(flags), 1)
    system.assert_equal(system.sum(flags, [0, 1, 2]), state)
    outputs(system, first=flags[0])


def state_machine_level(system: System, is_mended: bool) -> None:
    """The bit that selects the side of the last level of a tree is not boolean."""
    key = system.public("key")
    upper, bit = system.hint(lambda value: divmod(value, 2), [key], 2)
    system.bits(upper, 30)
    if is_mended:
        system.boolean(bit)
    system.assert_equal(2 * upper + bit, key)
    left, right = system.private("node"), system.private("sibling")
    outputs(system, child=left + system.multiply(bit, right - left))


def merkle_path(system: System, is_mended: bool) -> None:
    """The bits of the index of a leaf are not boolean."""
    index = system.public("index")
    bits = [system.hint_bit(index, position) for position in range(2)]
    system.assert_equal(system.pack(bits), index)
    for bit in bits if is_mended else ():
        system.boolean(bit)
    node = system.private("leaf")
    for bit, sibling in zip(bits, system.private("path", 2), strict=True):
        swap = system.multiply(bit, sibling - node)
        node = gadgets.poseidon_hash(system, [node + swap, sibling - swap])
    outputs(system, root=node)


def nullifier_index(system: System, is_mended: bool) -> None:
    """The index of a note, of which the nullifier is a hash, may exceed 32 bits."""
    position = system.public("position")
    bits = [system.hint_bit(position, each) for each in range(4)]
    (index,) = system.hint(lambda value: value, [position])
    for bit in bits:
        system.boolean(bit)
    # Only the path is compared with the index, modulo the size of the tree.
    (multiple,) = system.hint(lambda value: 0, [index])
    system.assert_equal(system.pack(bits), position)
    system.assert_equal(index, position + 16 * multiple)
    if is_mended:
        system.assert_equal(multiple, 0)
    outputs(system, nullifier=gadgets.poseidon_hash(system, [index, system.private("key")]))


def constant_assignment(system: System, is_mended: bool) -> None:
    """A constant is assigned to a wire that no constraint compares with it."""
    (minimum,) = system.hint(lambda: 1000, [])
    if is_mended:
        system.assert_equal(minimum, 1000)
    outputs(system, scaled=system.multiply(system.private("balance"), minimum))


def masked_text(system: System, is_mended: bool) -> None:
    """Flags that reveal parts of a text are hints without a constraint to the text."""
    text = system.private("text", 3)
    for index, character in enumerate(text):
        if is_mended:
            flag = system.is_equal(character, 64)
        else:
            (flag,) = system.hint(lambda value: int(value == 64), [character])
            system.boolean(flag)
        outputs(system, **{f"revealed{index}": system.multiply(flag, character)})


def zero_flag(system: System, is_mended: bool) -> None:
    """A zero test lacks the constraint that makes the flag 0 for other numbers."""
    x = system.public("x")
    inverse, flag = system.inverse_or_zero(x), system.wire()
    system.enforce(x, inverse, 1 - flag)
    if is_mended:
        system.enforce(x, flag, 0)
    outputs(system, is_zero=flag)


def default_case(system: System, is_mended: bool) -> None:
    """The default of a multiple selection is a flag of its own, which may be set beside others."""
    key = system.public("key")
    flags = [system.is_equal(key, each) for each in (1, 2)]
    default = 1 - system.sum(flags)
    if not is_mended:
        (default,) = system.hint(lambda value: value, [default])
        system.boolean(default)
    values = system.private("value", 3)
    outputs(
        system,
        result=system.sum(
            system.multiply(f, v) for f, v in zip([*flags, default], values, strict=True)
        ),
    )


def unsafe_decomposition(system: System, is_mended: bool) -> None:
    """A number is decomposed in as many bits as the field has, so x and x + p agree."""
    x = system.public("x")
    bits: list[r1cs.Signal] = [system.hint_bit(x, each) for each in range(254)]
    for bit in bits[:253] if is_mended else bits:
        system.boolean(bit)
    if is_mended:
        system.assert_equal(bits[253], 0)
    system.assert_equal(system.pack(bits), x)
    outputs(system, low=bits[0])


AUDITS = [
    Audit("assigned output", f"{BUG_TRACKER} 14, circomlib's MiMC", mimc_output),
    Audit("decoder", f"{CIRCOMLIB}, V-CIRCOMLIB-VUL-001", decoder),
    Audit("assigned exclusive or", "Veridise, Telepathy, ArrayXOR", array_xor),
    Audit("bits of an exclusive or", CHACHA, chacha_xor),
    Audit("one-hot states", "Trail of Bits, Scroll mpt-circuit", one_hot),
    Audit("level of a tree", f"{BUG_TRACKER} 21, Polygon zkEVM", state_machine_level),
    Audit("path of a leaf", "zkSecurity, Self, Merkle tree path", merkle_path),
    Audit("index of a note", f"{BUG_TRACKER} 6, Aztec 2.0", nullifier_index),
    Audit("assigned constant", f"{BUG_TRACKER} 19, Summa", constant_assignment),
    Audit("revealed text", f"{BUG_TRACKER} 27, ZK Email", masked_text),
    Audit("zero test", f"{BUG_TRACKER}, under-constrained circuits", zero_flag),
    Audit("default case", "Inference, lurk-rs, Multicase", default_case),
    Audit("254 bits", "Trail of Bits, iden3 circuits, Num2Bits", unsafe_decomposition),
]
