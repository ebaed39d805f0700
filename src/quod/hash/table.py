"""The hashes that transcripts are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

from quod.errors import InputError
from quod.field.array import check_field
from quod.field.moduli import NAMED, Modulus
from quod.field.spec import FieldSpec
from quod.validation import flag, instance, member, shown_kind, whole_number

if TYPE_CHECKING:
    from quod.hash.algebraic import AlgebraicHash

_ALGEBRAIC = "poseidon2-"
_HASH_BITS = 128

RUN_BYTES = 4096
"""What a digest of elements hashes one after the other; of more, it hashes the digests of runs."""


class HashFamily(Enum):
    """The construction of a hash, which selects the code for it in Python and in kernels.

    Code that depends on it has a case for each member, so that a new member raises an error instead
    of computing another hash.
    """

    SHA3 = "sha3"
    """A sponge over Keccak, of bytes."""

    SHA2 = "sha2"
    """A chain of blocks, of bytes."""

    POSEIDON2 = "poseidon2"
    """A chain of Poseidon2, of elements of a field."""


class Hash(Enum):
    """What makes challenges of messages; its value is the name that a protocol absorbs.

    Those over a field are for verifiers that are circuits over it, and only to be had by
    `recursive`: what is cheap for circuits makes the heuristic behind challenges weaker
    (Khovratovich, Rothblum and Soukhanov, eprint 2025/118).
    """

    SHA3_256 = "sha3-256"
    """FIPS 202, which takes a message of a round in one permutation."""

    SHA_256 = "sha-256"
    """FIPS 180-4."""

    POSEIDON2_M31 = "poseidon2-m31"
    """A chain of Poseidon2 over M31 (`quod.hash.algebraic`), as those below."""

    POSEIDON2_BABY_BEAR = "poseidon2-baby_bear"

    POSEIDON2_KOALA_BEAR = "poseidon2-koala_bear"

    POSEIDON2_GOLDILOCKS = "poseidon2-goldilocks"

    @cached_property
    def family(self) -> HashFamily:
        """The construction."""
        match self:
            case Hash.SHA3_256:
                return HashFamily.SHA3
            case Hash.SHA_256:
                return HashFamily.SHA2
            case (
                Hash.POSEIDON2_M31
                | Hash.POSEIDON2_BABY_BEAR
                | Hash.POSEIDON2_KOALA_BEAR
                | Hash.POSEIDON2_GOLDILOCKS
            ):
                return HashFamily.POSEIDON2
            case _:
                assert_never(self)

    @property
    def is_algebraic(self) -> bool:
        """Whether it is over a field, and only to be had by `recursive`."""
        return self.family is HashFamily.POSEIDON2

    @property
    def field(self) -> Modulus | None:
        """The prime field it is over, if it is over one."""
        return NAMED[self.value.removeprefix(_ALGEBRAIC)] if self.is_algebraic else None

    @cached_property
    def algebraic(self) -> AlgebraicHash | None:
        """The chain over that field."""
        if not self.is_algebraic:
            return None
        # It takes the permutation's parameters, which other hashes have no use for.
        from quod.hash.algebraic import algebraic_hash

        return algebraic_hash(self.value.removeprefix(_ALGEBRAIC))

    @property
    def collision_bits(self) -> int:
        """Minus the logarithm of the chance that an attempt finds two messages of one digest."""
        return _HASH_BITS if self.algebraic is None else self.algebraic.collision_bits

    def digest(self, data: bytes, field: FieldSpec | None = None) -> bytes:
        """The 32 bytes of the digest of a message, of elements of a field if one is given."""
        _check_message(data, field)
        if self.algebraic is not None:
            return self.algebraic.digest(data, are_elements=self.takes(field))
        return self._of_bytes(data)

    @property
    def run_words(self) -> int:
        """32-bit words of the runs of `digest_by_runs`."""
        return RUN_BYTES // 4 if self.algebraic is None else self.algebraic.run_words

    def digest_by_runs(
        self, data: bytes, field: FieldSpec | None = None, *, level: int = 0
    ) -> bytes:
        """The digest of any number of bytes, or of elements of a field, whose runs can be hashed
        side by side: the digests of runs are hashed as runs of the next level, until there is one.

        What is hashed of a run is its bytes and that of the level. `data` may be the digests that
        stand on a level above 0.
        """
        _check_message(data, field)
        level = whole_number("the level", level, 0, 255)
        if self.algebraic is not None:
            return self.algebraic.digest(data, are_elements=self.takes(field), level=level)
        while True:
            starts = range(0, max(1, len(data)), RUN_BYTES)
            digests = self.digests_of_runs([data[at : at + RUN_BYTES] for at in starts], level)
            if len(digests) == 1:
                return digests[0]
            data, level = b"".join(digests), level + 1

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """The digest of each run by itself, however long, on a level; of a hash over a field runs
        are of its elements, and one is as long as the other."""
        if self.algebraic is not None:
            return self.algebraic.digests_of_runs(runs, level)
        mark = bytes([level])
        return [self._of_bytes(run + mark) for run in runs]

    def _of_bytes(self, data: bytes) -> bytes:
        """The digest of bytes; InputError for a hash over a field."""
        family = self.family
        match family:
            case HashFamily.SHA3:
                return hashlib.sha3_256(data).digest()
            case HashFamily.SHA2:
                return hashlib.sha256(data).digest()
            case HashFamily.POSEIDON2:
                raise InputError(f"{self.value} hashes elements of a field; take Hash.digest")
            case _:
                assert_never(family)

    def takes(self, field: FieldSpec | None) -> bool:
        """Whether elements of a field are absorbed as what they are, and not as bytes."""
        return field is not None and self.field == field.modulus

    def check_challenges(self, field: FieldSpec) -> None:
        """InputError for a field whose elements it does not make."""
        if self.field is not None and self.field != field.modulus:
            raise InputError(
                f"{self.value} makes challenges of {self.field.name} and its extensions, none of "
                f"{field.name}"
            )


def _check_message(data: object, field: FieldSpec | None) -> None:
    """InputError for what are no bytes, or no field."""
    if type(data) is not bytes:
        raise InputError(f"a message is bytes, not {shown_kind(data)}")
    if field is not None:
        check_field(field)


def recursive_hash(field: FieldSpec) -> Hash:
    """The hash over the prime field of a field; InputError where there is none."""
    check_field(field)
    found = {each.field: each for each in Hash if each.is_algebraic}
    if field.modulus not in found:
        names = ", ".join(modulus.name for modulus in found if modulus is not None)
        raise InputError(
            f"there is no hash over {field.modulus.name} for recursive verifiers, only over {names}"
        )
    return found[field.modulus]


def check_hash(hash: Hash) -> Hash:
    """The hash; InputError for what is none."""
    return instance("the hash", hash, Hash, "take one of quod.transcript.Hash")


def hash_asked_for(hash: Hash, recursive: bool) -> Hash:
    """The hash; InputError for one over a field that `recursive` does not ask for, and for another
    one where it asks."""
    check_hash(hash)
    if flag("recursive", recursive) == hash.is_algebraic:
        return hash
    if recursive:
        raise InputError(f"{hash.value} is not for recursive verifiers; leave recursive out")
    raise InputError(
        f"{hash.value} is cheap for circuits, which makes challenges of it less safe; take it for "
        "recursive verifiers only, and say recursive=True"
    )


def check_own_hash(scheme: object, recursive: bool) -> None:
    """InputError for a commitment whose own hash is over a field, which makes trees cheap for
    circuits and is asked for by `recursive` as challenges are."""
    own = getattr(scheme, "hash", None)
    if isinstance(own, Hash) and own.is_algebraic:
        hash_asked_for(own, recursive)


def hash_named(name: object) -> Hash:
    """A hash by its name; InputError for another one."""
    return member("the hash", name, Hash)
