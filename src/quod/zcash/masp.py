"""MASP's Output: that of Sapling for many assets, whose generators are hashed from their names.

The circuit is `quod.zcash.circuit.masp_output`. Its parameters must be generated first.
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
    """Return the circuit, traced or from the cache (`quod.r1cs.cached_circuits`)."""
    return builtin_circuit("quod.zcash.circuit.masp_output", "masp_output", "bls12_381")


def asset_generator(identifier: bytes) -> EdwardsPair:
    """Return the point whose encoding is the hash of an identifier of 32 bytes.

    Raises InputError if the hash encodes no point, or a point of small order.
    """
    identifier = exact_bytes("an asset's identifier", identifier, 32)
    digest = blake2s(identifier, person=ASSET_GENERATOR).digest()
    point = decode_edwards(JUBJUB, digest, check_subgroup=False)
    if edwards_group(JUBJUB).has_small_order(point):
        raise InputError("the asset's generator is of small order")
    return point


def asset_identifier(name: bytes) -> bytes:
    """Return the identifier of an asset: the hash with the first nonce that has a generator."""
    prefix = UNIFORM_RANDOM_STRING + exact_bytes("the name of an asset", name)
    for nonce in range(256):
        identifier = blake2s(prefix + bytes([nonce]), person=_IDENTIFIER).digest()
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
