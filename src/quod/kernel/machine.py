"""What a kernel is traced for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from quod.errors import KernelError
from quod.frozen import frozen
from quod.names import nearest

DEFAULT_SHARED_BYTES = 48 * 1024
"""Shared memory that every CUDA device gives a workgroup without asking."""


class Capability(StrEnum):
    """What a machine can do beyond what all can, or what it is bad at: one row each.

    A capability equals its name: ``k.machine.has("ifma52")``.
    """

    U64 = "u64"
    """Integers of 64 bits are the machine's own, not pairs of words."""

    CARRY = "carry"
    """Additions and subtractions of 64-bit words give and take a carry."""

    MAD_CARRY_32 = "carry32"
    """32-bit multiply-adds give and take a carry."""

    IFMA52 = "ifma52"
    """Vector lanes multiply and add 52-bit words (AVX-512 IFMA)."""

    LOW_PRODUCTS = "low_products"
    """Of a product of words there is the low half alone: the high one is made of four."""

    SUBGROUPS = "subgroup"
    """Instances of a subgroup read one another's values: shuffles and ballots."""

    SLOW_SUBGROUPS = "slow_subgroup"
    """They do so through shared memory and barriers: what avoids it is faster."""

    CHECKS = "checks"
    """Kernels print and check assertions; elsewhere neither is recorded."""

    VECTOR_LANES = "vector_lanes"
    """Instances are the lanes of one vector: what they access side by side is one access, and
    elements that one instance accesses together are as many."""

    EXP2 = "exp2"
    """An instruction gives powers of two of floats."""

    F16 = "f16"
    """Instructions convert between f32 and f16, to nearest even, with subnormal numbers."""

    BF16 = "bf16"
    """An instruction rounds f32 to bf16."""

    FLOATS8 = "floats8"
    """Instructions convert floats of 8 bits: f32 to them, and e4m3 to f16."""

    ASYNC_COPIES = "async_copies"
    """Copies to shared memory go on while instances compute, or write zeros in their place."""

    TENSOR_CORES = "tensor_cores"
    """Subgroups of 32 multiply small matrices that their registers hold together."""

    FLOAT8_CORES = "float8_cores"
    """These may be of floats of 8 bits."""

    MATRIX_STORES = "matrix_stores"
    """Subgroups of 32 store such matrices to shared memory, row by row."""

    NAMED_BARRIERS = "named_barriers"
    """Some subgroups of a workgroup wait for one another, while others go their own ways."""

    TILE_COPIES = "tile_copies"
    """A unit of its own copies tiles of arrays to shared memory, to all workgroups of a cluster at
    once, and barriers in memory count what has come."""

    WARPGROUPS = "warpgroups"
    """Four subgroups of 32 multiply matrices in shared memory, and go on meanwhile."""

    SHORT_KERNELS = "short_kernels"
    """The driver copies functions to wherever they are called, and takes long over large kernels:
    a loop is better than its steps one after the other, and a program over a private array than
    values in registers."""

    WORD_STORES = "word_stores"
    """Memory is words of 32 bits: a store of fewer bits is an atomic operation on one."""

    WATCHED_LOOPS = "watched_loops"
    """The driver may end a loop early, which kernels are to report."""


def capabilities(names: Iterable[str]) -> frozenset[Capability]:
    """The capabilities of those names; KernelError, with what to do, for a name that is none."""
    return frozenset(map(_capability, names))


def _capability(name: str) -> Capability:
    try:
        return Capability(name)
    except ValueError:
        close = nearest(name, Capability)
        hint = f"did you mean {close}?" if close else f"take one of {', '.join(Capability)}"
        raise KernelError(f"no machine has the capability {name!r}; {hint}") from None


@frozen
class Machine:
    """The target of one trace: a language, the instances a workgroup, and what it can do.

    `target` names the language, `arch` the processor's kind within it, such as ``sm_90a``, or
    empty. `features` are its capabilities, which strategies of kernels ask for;
    KernelError for the name of none. `shared_bytes_limit` is the most shared memory that a
    workgroup may declare. `limbs` is a choice of the way in which numbers of several words
    are held, where capabilities leave one; strategies of kernels read it.

    A subgroup is a run of `subgroup_size` instances of one workgroup that can read one another's
    values. Its size divides the workgroup's, or exceeds it.
    """

    target: str
    workgroup_size: int
    features: frozenset[Capability] | frozenset[str]
    shared_bytes_limit: int = DEFAULT_SHARED_BYTES
    arch: str = ""
    subgroup_size: int = 1
    limbs: str = ""

    def __post_init__(self) -> None:
        # Machines of equal capabilities are equal in all that is written of them.
        object.__setattr__(self, "features", capabilities(self.features))

    def has(self, capability: str) -> bool:
        """Whether the machine has a capability; KernelError for the name of none."""
        return _capability(capability) in self.features
