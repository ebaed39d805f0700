"""Zcash's Sapling: keys, addresses, notes, and what the proof of an Output is about.

Values are plain integers and pairs, bytes are those of the Zcash protocol specification. The names
below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.sapling.address import PaymentAddress as PaymentAddress
    from quod.sapling.address import diversify_hash as diversify_hash
    from quod.sapling.keys import SpendingKey as SpendingKey
    from quod.sapling.keys import ViewingKey as ViewingKey
    from quod.sapling.keys import default_diversifier as default_diversifier
    from quod.sapling.keys import incoming_address as incoming_address
    from quod.sapling.note import Note as Note
    from quod.sapling.note import ephemeral_secret as ephemeral_secret
    from quod.sapling.note import value_commitment as value_commitment
    from quod.sapling.output_statement import OutputStatement as OutputStatement
    from quod.sapling.scalars import decode_scalar as decode_scalar
    from quod.sapling.scalars import encode_scalar as encode_scalar
    from quod.sapling.scalars import random_scalar as random_scalar

__all__ = [
    "PaymentAddress",
    "diversify_hash",
    "SpendingKey",
    "ViewingKey",
    "default_diversifier",
    "incoming_address",
    "Note",
    "ephemeral_secret",
    "value_commitment",
    "OutputStatement",
    "random_scalar",
    "encode_scalar",
    "decode_scalar",
]

_HOME = {
    "PaymentAddress": "quod.sapling.address",
    "diversify_hash": "quod.sapling.address",
    "SpendingKey": "quod.sapling.keys",
    "ViewingKey": "quod.sapling.keys",
    "default_diversifier": "quod.sapling.keys",
    "incoming_address": "quod.sapling.keys",
    "Note": "quod.sapling.note",
    "ephemeral_secret": "quod.sapling.note",
    "value_commitment": "quod.sapling.note",
    "OutputStatement": "quod.sapling.output_statement",
    "random_scalar": "quod.sapling.scalars",
    "encode_scalar": "quod.sapling.scalars",
    "decode_scalar": "quod.sapling.scalars",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
