"""Extended spending keys and extended full viewing keys: ZIP 32, with hardened derivation only.

A key of an account is m/32'/coin'/account'. Its internal key receives change. The repr of a key
shows no secret, and the operations are not constant-time.
"""

from __future__ import annotations

from hashlib import blake2b

from quod.curve.edwards.affine import edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import exact_bytes, whole_number
from quod.zcash.address import PaymentAddress
from quod.zcash.generators import proof_generator
from quod.zcash.keys import ExpandedSpendingKey, FullViewingKey
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.scalars import (
    decode_scalar,
    encode_scalar,
    encoded,
    expanded,
    expanded_scalar,
    multiple,
)
from quod.zcash.statement_fields import decode_point
from quod.zcash.zip32.diversifiers import find_diversifier, indexed_diversifier

HARDENED = 1 << 31
"""The first index of a hardened child."""
PURPOSE = 32
KEY_BYTES = 169
_ORDER = JUBJUB.fr.value
_MASTER_DK, _CHILD = b"\x10", b"\x11"
_CHILD_ASK, _CHILD_NSK, _CHILD_OVK, _CHILD_DK = b"\x13", b"\x14", b"\x15", b"\x16"
_INTERNAL_NSK, _INTERNAL_KEYS = b"\x17", b"\x18"


@frozen
class Derivation:
    """The part of an extended key that tells how it was derived.

    depth: the number of derivations from the master key, up to 255.
    parent_fvk_tag: the first 4 bytes of the fingerprint of the parent's full viewing key; zeros for
        the master key.
    child_index: the index by which the parent derived the key, with 2**31 added; 0 for the master.
    chain_code: 32 bytes, a secret.
    """

    depth: int
    parent_fvk_tag: bytes
    child_index: int
    chain_code: bytes

    def __post_init__(self) -> None:
        self.__dict__.update(
            depth=whole_number("the depth of a key", self.depth, 0, 255),
            parent_fvk_tag=exact_bytes("the parent's tag", self.parent_fvk_tag, 4),
            child_index=whole_number("the index of a child", self.child_index, 0, (1 << 32) - 1),
            chain_code=exact_bytes("the chain code", self.chain_code, 32),
        )

    def __repr__(self) -> str:
        return "Derivation(...)"

    def to_bytes(self) -> bytes:
        """Return the first 41 bytes of an extended key."""
        index = self.child_index.to_bytes(4, "little")
        return bytes([self.depth]) + self.parent_fvk_tag + index + self.chain_code

    @classmethod
    def from_bytes(cls, data: bytes) -> Derivation:
        """Decode the first 41 bytes of an extended key."""
        return cls(data[0], data[1:5], int.from_bytes(data[5:9], "little"), data[9:41])


@frozen
class _ExtendedKey:
    """The fields that both kinds of extended keys share."""

    derivation: Derivation
    diversifier_key: bytes

    def __post_init__(self) -> None:
        exact_bytes("dk", self.diversifier_key, 32)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@frozen
class ExtendedSpendingKey(_ExtendedKey):
    """An extended spending key.

    derivation: how it was derived from the master key.
    diversifier_key: dk, 32 bytes.
    key: ask, nsk and ovk.
    """

    key: ExpandedSpendingKey

    @classmethod
    def master(cls, seed: bytes, protocol: Protocol = SAPLING) -> ExtendedSpendingKey:
        """Return the master key of a seed of 32 to 252 bytes."""
        seed = exact_bytes("the seed", seed)
        if not 32 <= len(seed) <= 252:
            raise InputError(f"the seed must be 32 to 252 bytes, not {len(seed)}")
        digest = blake2b(seed, person=protocol.master_key).digest()
        spending_key, chain_code = digest[:32], digest[32:]
        return cls(
            Derivation(0, bytes(4), 0, chain_code),
            expanded(spending_key, _MASTER_DK, protocol)[:32],
            ExpandedSpendingKey.from_spending_key(spending_key, protocol),
        )

    @classmethod
    def account(
        cls, seed: bytes, account: int, coin_type: int = 133, protocol: Protocol = SAPLING
    ) -> ExtendedSpendingKey:
        """Return the key m/32'/coin_type'/account' of a seed.

        account: from 0 to 2**31 - 1.
        coin_type: 133 for Zcash's mainnet, 1 for test networks, 877 for Namada.
        """
        key = cls.master(seed, protocol)
        for name, index in (("purpose", PURPOSE), ("coin type", coin_type), ("account", account)):
            key = key.child(whole_number(f"the {name}", index, 0, HARDENED - 1))
        return key

    def child(self, index: int) -> ExtendedSpendingKey:
        """Return the hardened child `index`, from 0 to 2**31 - 1.

        Raises InputError for a key that is 255 derivations from its master.
        """
        index = HARDENED + whole_number("the index of a child", index, 0, HARDENED - 1)
        protocol, key, dk = self.key.protocol, self.key, self.diversifier_key
        if self.derivation.depth == 255:
            raise InputError("a key of depth 255 has no children")
        parent = encode_scalar(key.ask) + encode_scalar(key.nsk) + key.ovk + dk
        digest = expanded(
            self.derivation.chain_code, _CHILD + parent + index.to_bytes(4, "little"), protocol
        )
        seed, chain_code = digest[:32], digest[32:]
        tag = self.full_viewing_key.fingerprint[:4]
        return ExtendedSpendingKey(
            Derivation(self.derivation.depth + 1, tag, index, chain_code),
            expanded(seed, _CHILD_DK + dk, protocol)[:32],
            ExpandedSpendingKey(
                (key.ask + expanded_scalar(seed, _CHILD_ASK, protocol)) % _ORDER,
                (key.nsk + expanded_scalar(seed, _CHILD_NSK, protocol)) % _ORDER,
                expanded(seed, _CHILD_OVK + key.ovk, protocol)[:32], protocol,
            ),
        )  # fmt: skip

    @property
    def full_viewing_key(self) -> ExtendedFullViewingKey:
        """The extended full viewing key, which can see payments but not spend them."""
        return ExtendedFullViewingKey(
            self.derivation, self.diversifier_key, self.key.full_viewing_key
        )

    @property
    def internal(self) -> ExtendedSpendingKey:
        """The key of this account's change."""
        shift, dk, ovk = _internal_parts(self.full_viewing_key)
        key = ExpandedSpendingKey(
            self.key.ask, (self.key.nsk + shift) % _ORDER, ovk, self.key.protocol
        )
        return ExtendedSpendingKey(self.derivation, dk, key)

    def to_bytes(self) -> bytes:
        """Return the 169 bytes of the key."""
        secrets = encode_scalar(self.key.ask) + encode_scalar(self.key.nsk) + self.key.ovk
        return self.derivation.to_bytes() + secrets + self.diversifier_key

    @classmethod
    def from_bytes(cls, data: bytes, protocol: Protocol = SAPLING) -> ExtendedSpendingKey:
        """Decode 169 bytes; raises InputError, without secrets, for scalars not canonical."""
        derivation, ask, nsk, ovk, dk = _parts("an extended spending key", data)
        key = ExpandedSpendingKey(
            decode_scalar("ask", ask), decode_scalar("nsk", nsk), ovk, protocol
        )
        return cls(derivation, dk, key)


@frozen
class ExtendedFullViewingKey(_ExtendedKey):
    """An extended full viewing key.

    derivation: how it was derived from the master key.
    diversifier_key: dk, 32 bytes.
    key: ak, nk and ovk.
    """

    key: FullViewingKey

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint of the key, 32 bytes."""
        return blake2b(
            self._points + self.key.ovk, digest_size=32, person=self.key.protocol.fingerprint
        ).digest()

    @property
    def _points(self) -> bytes:
        return encoded(self.key.ak) + encoded(self.key.nk)

    @property
    def default_address(self) -> PaymentAddress:
        """The address of the first diversifier that has a point."""
        return self.find_address()[1]

    def find_address(self, start: int = 0) -> tuple[int, PaymentAddress]:
        """Return the first index from `start` on whose diversifier has an address, and it.

        start: from 0 to 2**88 - 1. Raises InputError if there is none.
        """
        index, diversifier = find_diversifier(self.diversifier_key, start, self.key.protocol)
        return index, self.key.address(diversifier)

    def address(self, index: int) -> PaymentAddress:
        """Return the address of diversifier `index`; InputError if the diversifier has no point."""
        return self.key.address(indexed_diversifier(self.diversifier_key, index))

    @property
    def internal(self) -> ExtendedFullViewingKey:
        """The full viewing key of this account's change."""
        shift, dk, ovk = _internal_parts(self)
        protocol = self.key.protocol
        nk = edwards_group(JUBJUB).add(self.key.nk, multiple(shift, proof_generator(protocol)))
        return ExtendedFullViewingKey(
            self.derivation, dk, FullViewingKey(self.key.ak, nk, ovk, protocol)
        )

    def to_bytes(self) -> bytes:
        """Return the 169 bytes of the key."""
        return self.derivation.to_bytes() + self._points + self.key.ovk + self.diversifier_key

    @classmethod
    def from_bytes(cls, data: bytes, protocol: Protocol = SAPLING) -> ExtendedFullViewingKey:
        """Decode 169 bytes; raises InputError, with its name, for an invalid point."""
        derivation, ak, nk, ovk, dk = _parts("an extended full viewing key", data)
        key = FullViewingKey(decode_point("ak", ak), decode_point("nk", nk), ovk, protocol)
        return cls(derivation, dk, key)


def _internal_parts(key: ExtendedFullViewingKey) -> tuple[int, bytes, bytes]:
    """Return the difference of nsk, and dk and ovk of the internal key."""
    protocol = key.key.protocol
    contents = key.to_bytes()[41:]
    seed = blake2b(contents, digest_size=32, person=protocol.internal_key).digest()
    keys = expanded(seed, _INTERNAL_KEYS, protocol)
    return expanded_scalar(seed, _INTERNAL_NSK, protocol), keys[:32], keys[32:]


def _parts(name: str, data: bytes) -> tuple[Derivation, bytes, bytes, bytes, bytes]:
    """Return the derivation of an encoded key, and its four parts of 32 bytes."""
    data = exact_bytes(name, data, KEY_BYTES)
    return (Derivation.from_bytes(data), data[41:73], data[73:105], data[105:137], data[137:])
