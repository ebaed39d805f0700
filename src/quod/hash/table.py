"""The table of hashes that transcripts, commitments and proofs of circuits choose from.

A new hash is a module of `quod.hash`, which ends with its row (`quod.hash.byte_hash.ByteHash` for a
hash of bytes), and a line of `Hash`. The module loads when the hash is first used.
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
    """What makes challenges of messages; its value is the name that a protocol absorbs.

    Those over a field are for verifiers that are circuits over it, and only to be had by
    `recursive`: what is cheap for circuits makes the heuristic behind challenges weaker
    (Khovratovich, Rothblum and Soukhanov, eprint 2025/118).
    """

    SHA3_256 = "sha3-256", "quod.hash.sha3.SHA3_256"
    """FIPS 202, which takes a message of a round in one permutation."""

    SHA_256 = "sha-256", "quod.hash.sha2.SHA_256"
    """FIPS 180-4."""

    POSEIDON2_M31 = "poseidon2-m31", "quod.hash.algebraic.M31"
    """A chain of Poseidon2 over M31 (`quod.hash.algebraic`), as those below."""

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
        """The row: the hash on the host, which makes its form inside kernels."""
        module, _, name = self._row.rpartition(".")
        function: HashFunction = getattr(import_module(module), name)
        return function

    @property
    def is_algebraic(self) -> bool:
        """Whether it is over a field, and only to be had by `recursive`."""
        return self.field is not None

    @property
    def field(self) -> Modulus | None:
        """The prime field it is over, if it is over one."""
        return self.function.field

    @property
    def collision_bits(self) -> int:
        """Minus the logarithm of the chance that an attempt finds two messages of one digest."""
        return self.function.collision_bits

    @property
    def has_kernel(self) -> bool:
        """Whether it has a form inside kernels."""
        return self.function.has_kernel

    @property
    def circuit_layers(self) -> int:
        """Layers of a circuit that one hash of a sequential delay outlasts."""
        return self.function.circuit_layers

    def digest(self, data: bytes, field: FieldSpec | None = None) -> bytes:
        """The 32 bytes of the digest of a message, of elements of a field if one is given."""
        _check_message(data)
        return self.function.digest(data, are_elements=self.takes(field))

    @property
    def run_words(self) -> int:
        """32-bit words of the runs of `digest_by_runs`."""
        return self.function.run_words

    def digest_by_runs(
        self, data: bytes, field: FieldSpec | None = None, *, level: int = 0
    ) -> bytes:
        """The digest of any number of bytes, or of elements of a field, whose runs can be hashed
        side by side: the digests of runs are hashed as runs of the next level, until there is one.

        What is hashed of a run is its bytes and that of the level. `data` may be the digests that
        stand on a level above 0.
        """
        _check_message(data)
        level = whole_number("the level", level, 0, 255)
        return self.function.digest_by_runs(data, are_elements=self.takes(field), level=level)

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """The digest of each run by itself, however long, on a level; of a hash over a field runs
        are of its elements, and one is as long as the other."""
        return self.function.digests_of_runs(runs, level)

    def after(
        self, state: bytes, label: int, message: bytes, field: FieldSpec | None = None
    ) -> bytes:
        """The state of a transcript after a message, of elements of a field if one is given."""
        return self.function.after(state, label, message, are_elements=self.takes(field))

    def in_kernel(self, k: Builder, *, alone: bool = False) -> KernelHash:
        """The hash inside one kernel, made at the kernel's top; `alone` gives each instance a state
        of its own. InputError for a hash that has no such form."""
        if not self.has_kernel:
            names = ", ".join(each.value for each in Hash if each.has_kernel)
            raise InputError(f"{self.value} has no form inside kernels; take one of {names}")
        return self.function.in_kernel(k, alone=alone)

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


def _check_message(data: object) -> None:
    """InputError for a message that is not bytes."""
    if type(data) is not bytes:
        raise InputError(f"a message is bytes, not {shown_kind(data)}")


def recursive_hash(field: FieldSpec) -> Hash:
    """The hash over the prime field of a field; InputError where there is none."""
    found = {each.field: each for each in Hash if each.is_algebraic}
    if field.modulus not in found:
        names = ", ".join(modulus.name for modulus in found if modulus is not None)
        raise InputError(
            f"there is no hash over {field.modulus.name} for recursive verifiers, only over {names}"
        )
    return found[field.modulus]


def hash_asked_for(hash: Hash, recursive: bool) -> Hash:
    """The hash; InputError for one over a field that `recursive` does not ask for, and for another
    one where it asks."""
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
