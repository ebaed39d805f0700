"""Small kernels that show the language; `quod kernel list` names them."""

from __future__ import annotations

from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u32
from quod.kernel.ir.value import F32, U32, Pointer
from quod.kernel.registry import register


@kernel
def vector_add(k: Builder, n: U32, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32]) -> None:
    """out[i] = x[i] + y[i] modulo 2**32, for i below n."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = x[i] + y[i]


@kernel
def saxpy(k: Builder, n: U32, a: F32, x: Pointer[F32], y: Pointer[F32]) -> None:
    """y[i] = a * x[i] + y[i], for i below n."""
    i = k.global_id()
    with k.if_(i < n):
        y[i] = a * x[i] + y[i]


@kernel
def reduce_sum(k: Builder, n: U32, x: Pointer[U32], sums: Pointer[U32]) -> None:
    """sums[g] = the sum of x[i] modulo 2**32 over the instances i of workgroup g, for i below n.

    A tree in shared memory: each round adds the upper half of what is left to the lower half.
    """
    size = k.workgroup_size
    partial = k.shared(u32, size)
    lane, i = k.local_id(), k.global_id()
    with k.if_(i < n) as branch:
        branch.give(x[i])
    with branch.otherwise():
        branch.give(k.constant(0, u32))
    partial[lane] = branch.results
    k.barrier()
    while size > 1:
        half = (size + 1) // 2
        with k.if_(lane + half < size):
            partial[lane] += partial[lane + half]
        k.barrier()
        size = half
    with k.if_(lane == 0):
        sums[k.workgroup_id()] = partial[lane]


@kernel
def histogram(k: Builder, n: U32, x: Pointer[U32], bins: U32, counts: Pointer[U32]) -> None:
    """counts[b] += how many of x[0] to x[n - 1] are b modulo the number of bins.

    Each instance walks through x in steps of the whole grid.
    """
    everyone = k.num_workgroups() * k.workgroup_size
    with k.range(k.global_id(), n, everyone) as loop:
        k.atomic_add(counts, x[loop.index] % bins, 1)


register("examples.vector_add", vector_add)
register("examples.saxpy", saxpy)
register("examples.reduce_sum", reduce_sum)
register("examples.histogram", histogram)
