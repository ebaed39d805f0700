"""What a kernel is traced for."""

from __future__ import annotations

from quod.frozen import frozen

DEFAULT_SHARED_BYTES = 48 * 1024
"""Shared memory that every CUDA device gives a workgroup without asking."""


@frozen
class Machine:
    """The target of one trace: a language, the instances a workgroup, and the features there.

    `target` is ``llvm``, ``ptx`` or ``wgsl``, `arch` the processor's kind within it, such as
    ``sm_90a``, or empty. Features are what a kernel's strategies may ask for: ``ifma52`` (52-bit
    multiply-add in vector lanes), ``u64`` (64-bit integers), ``carry`` (carry chains), ``carry32``
    (32-bit multiply-adds with carry), ``private`` (arrays of an instance), ``subgroup`` (shuffles
    and ballots), ``slow_subgroup`` (those go through shared memory and barriers: what avoids them
    is faster), ``watched_loops`` (a driver may end them early, which kernels are to report).
    `shared_bytes_limit` is the most shared memory that a workgroup may declare. `limbs` says how
    field elements are held where features leave a choice; see `quod.field.lazy_limbs`.

    A subgroup is a run of `subgroup_size` instances of one workgroup that can read one another's
    values. Its size divides the workgroup's, or exceeds it.
    """

    target: str
    workgroup_size: int
    features: frozenset[str]
    shared_bytes_limit: int = DEFAULT_SHARED_BYTES
    arch: str = ""
    subgroup_size: int = 1
    limbs: str = ""

    def has(self, feature: str) -> bool:
        return feature in self.features
