"""The hashes that transcripts are made of."""

from __future__ import annotations

import hashlib
from enum import Enum

from quod.errors import InputError
from quod.validation import instance, shown, shown_kind


class Hash(Enum):
    """What makes challenges of messages; its value is the name that a protocol absorbs."""

    SHA3_256 = "sha3-256"
    """FIPS 202, which takes a message of a round in one permutation."""

    SHA_256 = "sha-256"
    """FIPS 180-4."""

    def digest(self, data: bytes) -> bytes:
        """The 32 bytes of the digest of a message."""
        given: object = data
        if type(given) is not bytes:
            raise InputError(f"a message is bytes, not {shown_kind(given)}")
        if self is Hash.SHA3_256:
            return hashlib.sha3_256(data).digest()
        return hashlib.sha256(data).digest()


def check_hash(hash: Hash) -> Hash:
    """The hash; InputError for what is none."""
    return instance("the hash", hash, Hash, "take one of quod.transcript.Hash")


def hash_named(name: object) -> Hash:
    """A hash by its name; InputError for another one."""
    known = {each.value: each for each in Hash}
    if not isinstance(name, str) or name not in known:
        raise InputError(f"the hash must be {' or '.join(known)}, not {shown(name)}")
    return known[name]
