"""The target machine of a trace and its capabilities."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from quod.errors import KernelError
from quod.frozen import frozen
from quod.names import nearest

DEFAULT_SHARED_BYTES = 48 * 1024
"""The shared memory of a workgroup on all CUDA devices without a special request, in bytes."""


class Capability(StrEnum):
    """An optional feature of a machine, or a weakness that strategies should work around.

    A capability equals its name: ``k.machine.has("ifma52")``.
    """

    U64 = "u64"
    """64-bit integers are native, not pairs of 32-bit words."""

    CARRY = "carry"
    """Additions and subtractions of 64-bit words have a carry in and a carry out."""

    MAD_CARRY_32 = "carry32"
    """32-bit multiply-adds have a carry in and a carry out."""

    IFMA52 = "ifma52"
    """Vector lanes multiply and add 52-bit words (AVX-512 IFMA)."""

    WORD_PRODUCTS = "word_products"
    """Vector lanes multiply 32-bit words to 64 bits (AVX2, NEON)."""

    PAIR_PRODUCTS = "pair_products"
    """Vector lanes multiply two pairs of 16-bit integers and add the products (x86)."""

    BYTE_PRODUCTS = "byte_products"
    """An instruction multiplies two 16-bit integers by two bytes and adds the products (NVIDIA)."""

    LOW_PRODUCTS = "low_products"
    """Multiplication yields only the low word; the high word takes four multiplications."""

    SUBGROUPS = "subgroup"
    """Instances of a subgroup read one another's values: shuffles and ballots."""

    SLOW_SUBGROUPS = "slow_subgroup"
    """Subgroup ops are emulated with shared memory and barriers, so kernels should avoid them."""

    CHECKS = "checks"
    """Kernels can print and check assertions; other machines record neither."""

    VECTOR_LANES = "vector_lanes"
    """Instances are lanes of one vector: contiguous accesses by neighbours are one access, but n
    consecutive elements of one instance are n accesses."""

    EXP2 = "exp2"
    """An instruction computes 2**x of a float."""

    F16 = "f16"
    """Instructions convert between f32 and f16, rounding to nearest even and with subnormals."""

    BF16 = "bf16"
    """An instruction rounds f32 to bf16."""

    FLOATS8 = "floats8"
    """Instructions convert f32 to 8-bit floats, and e4m3 to f16."""

    ASYNC_COPIES = "async_copies"
    """Copies to shared memory are asynchronous and can write zeros instead of the source."""

    TENSOR_CORES = "tensor_cores"
    """Subgroups of 32 multiply small matrices distributed over their registers."""

    FLOAT8_CORES = "float8_cores"
    """Tensor cores also multiply 8-bit floats."""

    MATRIX_STORES = "matrix_stores"
    """Subgroups of 32 store matrices from registers to shared memory, row by row."""

    NAMED_BARRIERS = "named_barriers"
    """Barriers can synchronise some subgroups of a workgroup while the others continue."""

    TILE_COPIES = "tile_copies"
    """A copy engine copies tiles of arrays to shared memory, with multicast to all workgroups of a
    cluster; barriers in memory count the bytes."""

    WARPGROUPS = "warpgroups"
    """Four subgroups of 32 multiply matrices in shared memory asynchronously."""

    SHORT_KERNELS = "short_kernels"
    """The driver inlines functions and compiles large kernels slowly. Prefer loops to unrolled
    steps, and an interpreted program over a private array to values in registers."""

    FEW_KERNELS = "few_kernels"
    """Users wait for the compilation of all kernels before the first result. Prefer one kernel for
    several purposes to a faster kernel for each, and little shared memory, which some drivers zero
    word by word."""

    WORD_STORES = "word_stores"
    """Memory consists of 32-bit words: a narrower store is an atomic operation on a word."""

    WATCHED_LOOPS = "watched_loops"
    """The driver may end a loop early; kernels must report it."""


def capabilities(names: Iterable[str]) -> frozenset[Capability]:
    """Return the capabilities with these names; KernelError suggests a fix for an unknown name."""
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
    """The target of one trace: language, workgroup size and capabilities.

    target: the name of the target language.
    workgroup_size: instances in a workgroup.
    features: capabilities; KernelError for an unknown name.
    shared_bytes_limit: the maximum shared memory a workgroup may declare, in bytes.
    arch: the architecture within the target, such as ``sm_90a``, or empty.
    subgroup_size: consecutive instances of a workgroup that can exchange values. It divides the
        workgroup size or exceeds it.
    limbs: the representation of multi-word numbers where capabilities leave a choice.
    """

    target: str
    workgroup_size: int
    features: frozenset[Capability] | frozenset[str]
    shared_bytes_limit: int = DEFAULT_SHARED_BYTES
    arch: str = ""
    subgroup_size: int = 1
    limbs: str = ""

    def __post_init__(self) -> None:
        # Normalise, so that machines with equal capabilities compare equal.
        object.__setattr__(self, "features", capabilities(self.features))

    def has(self, capability: str) -> bool:
        """Return whether the machine has a capability; KernelError for an unknown name."""
        return _capability(capability) in self.features
