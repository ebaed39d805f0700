"""MASP's Output: Sapling's for assets of many kinds, each a point that its name is hashed to.

The circuit is `quod.zcash.circuit.masp_output`. Its parameters are to be made.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2s

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.hash.hash_to_jubjub import UNIFORM_RANDOM_STRING
from quod.r1cs import Circuit
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.inputs import Inputs
from quod.validation import exact_bytes
from quod.zcash.circuit.masp_output import ASSET_GENERATOR
from quod.zcash.note import Note
from quod.zcash.output import output_inputs

_IDENTIFIER = b"MASP__t_"


@cache
def masp_output_circuit() -> Circuit:
    """The circuit, traced unless an earlier process has (`quod.r1cs.cached_circuits`)."""
    return builtin_circuit("quod.zcash.circuit.masp_output", "masp_output", "bls12_381")


def asset_generator(identifier: bytes) -> EdwardsPair:
    """The point whose encoding is the hash of an identifier of 32 bytes.

    InputError for an identifier that has none, or one of small order.
    """
    identifier = exact_bytes("an asset's identifier", identifier, 32)
    digest = blake2s(identifier, person=ASSET_GENERATOR).digest()
    point = decode_edwards(JUBJUB, digest, check_subgroup=False)
    if edwards_group(JUBJUB).has_small_order(point):
        raise InputError("the asset's generator is of small order")
    return point


def asset_identifier(name: bytes) -> bytes:
    """The identifier of the asset of a name: that of the first nonce that has a generator."""
    begin = UNIFORM_RANDOM_STRING + exact_bytes("the name of an asset", name)
    for nonce in range(256):
        identifier = blake2s(begin + bytes([nonce]), person=_IDENTIFIER).digest()
        try:
            asset_generator(identifier)
        except InputError:
            continue
        return identifier
    raise InputError("no nonce gives the asset a generator; choose another name")


def masp_output_inputs(note: Note, identifier: bytes, esk: int, rcv: int) -> Inputs:
    """Return the circuit's inputs for a note of an asset.

    Raises the errors of `output_inputs` and `asset_generator`.
    """
    generator = asset_generator(identifier)
    return {
        **output_inputs(note, esk, rcv),
        "asset_identifier": int.from_bytes(identifier, "little"),
        "asset_generator": generator,
    }
