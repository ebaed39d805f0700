"""The table of hashes for transcripts, commitments and proofs of circuits.

A hash is a module of `quod.hash` that ends with its row (`quod.hash.byte_hash.ByteHash` for a hash
of bytes), and a member of `Hash`. The module loads on the first use of the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.validation import flag, member, shown_kind, whole_number

if TYPE_CHECKING:
    from quod.hash.function import HashFunction, KernelHash
    from quod.kernel.builder.builder import Builder


class Hash(Enum):
    """A hash that derives challenges from messages; its value is the name that protocols absorb.

    Hashes over a field are for verifiers that are circuits over that field, and require
    `recursive`: the Fiat-Shamir heuristic is weaker for a hash that is cheap in circuits
    (Khovratovich, Rothblum and Soukhanov, eprint 2025/118).
    """

    SHA3_256 = "sha3-256", "quod.hash.sha3.SHA3_256"
    """FIPS 202. The message of a sumcheck round takes one permutation."""

    SHA_256 = "sha-256", "quod.hash.sha2.SHA_256"
    """FIPS 180-4."""

    POSEIDON2_M31 = "poseidon2-m31", "quod.hash.algebraic.M31"
    """A hash chain of Poseidon2 over M31 (`quod.hash.algebraic`); the next three are similar."""

    POSEIDON2_BABY_BEAR = "poseidon2-baby_bear", "quod.hash.algebraic.BABY_BEAR"

    POSEIDON2_KOALA_BEAR = "poseidon2-koala_bear", "quod.hash.algebraic.KOALA_BEAR"

    POSEIDON2_GOLDILOCKS = "poseidon2-goldilocks", "quod.hash.algebraic.GOLDILOCKS"

    def __new__(cls, name: str, row: str) -> Hash:
        """`row` is the full name of the hash's row."""
        hash = object.__new__(cls)
        hash._value_, hash._row = name, row
        return hash

    _value_: str
    _row: str

    @cached_property
    def function(self) -> HashFunction:
        """The implementation of the hash on the host, which also constructs the kernel form."""
        module, _, name = self._row.rpartition(".")
        function: HashFunction = getattr(import_module(module), name)
        return function

    @property
    def is_algebraic(self) -> bool:
        """True if the hash is over a field, and requires `recursive`."""
        return self.field is not None

    @property
    def field(self) -> Modulus | None:
        """The prime field of a hash over a field, None for a hash of bytes."""
        return self.function.field

    @property
    def collision_bits(self) -> int:
        """Minus log2 of the probability that one attempt finds a collision."""
        return self.function.collision_bits

    @property
    def has_kernel(self) -> bool:
        """True if the hash has a kernel form."""
        return self.function.has_kernel

    @property
    def circuit_layers(self) -> int:
        """The depth of circuits, in layers, against which one hash of a delay protects."""
        return self.function.circuit_layers

    def digest(self, data: bytes, field: FieldSpec | None = None) -> bytes:
        """Return the 32 bytes of a message's digest.

        field: the message consists of encoded elements of this field.
        """
        _check_message(data)
        return self.function.digest(data, are_elements=self.takes(field))

    @property
    def run_words(self) -> int:
        """32-bit words of the runs of `digest_by_runs`."""
        return self.function.run_words

    def digest_by_runs(
        self, data: bytes, field: FieldSpec | None = None, *, level: int = 0
    ) -> bytes:
        """Return the root of a tree of digests over bytes, or over encoded elements of a field.

        The hash of each run of `run_words` words is independent of the others. The digests of a
        level are the data of the next level, until one digest is left. The hash of a run absorbs
        its bytes and a byte for the level. Above level 0, `data` are digests of the level below.
        """
        _check_message(data)
        level = whole_number("the level", level, 0, 255)
        return self.function.digest_by_runs(data, are_elements=self.takes(field), level=level)

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """Return the digest of each run on a level of `digest_by_runs`.

        For a hash over a field, runs are encoded elements of the field and have equal length.
        """
        return self.function.digests_of_runs(runs, level)

    def absorb(
        self, state: bytes, label: int, message: bytes, field: FieldSpec | None = None
    ) -> bytes:
        """Return the transcript state after a message, of elements of `field` if it is given."""
        return self.function.absorb(state, label, message, are_elements=self.takes(field))

    def in_kernel(self, k: Builder, *, alone: bool = False) -> KernelHash:
        """Construct the hash inside a kernel; call it at the kernel's top.

        With `alone` each instance has its own state. Raises InputError for a hash without a kernel
        form.
        """
        if not self.has_kernel:
            names = ", ".join(each.value for each in Hash if each.has_kernel)
            raise InputError(f"{self.value} is not available inside kernels; use one of {names}")
        return self.function.in_kernel(k, alone=alone)

    def takes(self, field: FieldSpec | None) -> bool:
        """Return whether the hash absorbs elements of a field as elements instead of bytes."""
        return field is not None and self.field == field.modulus

    def check_challenges(self, field: FieldSpec) -> None:
        """Raise InputError for a field in which the hash derives no challenges."""
        if self.field is not None and self.field != field.modulus:
            raise InputError(
                f"{self.value} derives challenges in {self.field.name} and its "
                f"extensions, not in {field.name}"
            )


def _check_message(data: object) -> None:
    """Raise InputError for a message that is not bytes."""
    if type(data) is not bytes:
        raise InputError(f"a message must be bytes, not {shown_kind(data)}")


def recursive_hash(field: FieldSpec) -> Hash:
    """Return the hash over the prime field of `field`; raises InputError if there is none."""
    hashes = {each.field: each for each in Hash if each.is_algebraic}
    if field.modulus not in hashes:
        names = ", ".join(modulus.name for modulus in hashes if modulus is not None)
        raise InputError(
            f"Quod has no hash over {field.modulus.name} for recursive verifiers, only over {names}"
        )
    return hashes[field.modulus]


def checked_hash(hash: Hash, recursive: bool) -> Hash:
    """Return the hash; raises InputError unless `recursive` states whether it is over a field.

    Such hashes are cheap in circuits, so callers must request them explicitly.
    """
    if flag("recursive", recursive) == hash.is_algebraic:
        return hash
    if recursive:
        raise InputError(f"{hash.value} is not for recursive verifiers; omit recursive")
    raise InputError(
        f"{hash.value} is cheap in circuits, which makes its challenges less safe; use "
        "it for recursive verifiers only, and pass recursive=True"
    )


def check_tree_hash(scheme: object, recursive: bool) -> None:
    """Raise InputError for a commitment whose Merkle trees use a hash over a field, unless the key
    is `recursive`."""
    tree_hash = getattr(scheme, "hash", None)
    if isinstance(tree_hash, Hash) and tree_hash.is_algebraic:
        checked_hash(tree_hash, recursive)


def hash_named(name: object) -> Hash:
    """Return the hash with a name such as ``sha3-256``; raises InputError for other names."""
    return member("the hash", name, Hash)
