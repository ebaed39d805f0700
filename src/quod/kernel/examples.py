"""Small kernels that show the language; `quod kernel list` names them."""

from __future__ import annotations

from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.types import u32
from quod.kernel.ir.value import F32, U32, Pointer
from quod.kernel.registry import register


@kernel
def vector_add(k: Builder, n: U32, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32]) -> None:
    """For each i < n: out[i] = x[i] + y[i] modulo 2**32."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = x[i] + y[i]


@kernel
def saxpy(k: Builder, n: U32, a: F32, x: Pointer[F32], y: Pointer[F32]) -> None:
    """For each i < n: y[i] = a * x[i] + y[i]."""
    i = k.global_id()
    with k.if_(i < n):
        y[i] = a * x[i] + y[i]


@kernel
def reduce_sum(k: Builder, n: U32, x: Pointer[U32], sums: Pointer[U32]) -> None:
    """For each workgroup g: sums[g] = the sum of its x[i] modulo 2**32, one x[i] per instance.

    n: length of x. `sums` has one sum for each workgroup.
    The sum is a tree in shared memory: each step adds the upper half of the partial sums to the
    lower half. `while` is a loop in Python, so tracing unrolls it.
    """
    size = k.workgroup_size
    partial = k.shared(u32, size)
    local_index, i = k.local_id(), k.global_id()
    with k.if_(i < n) as branch:
        branch.yield_(x[i])
    with branch.otherwise():
        branch.yield_(k.constant(0, u32))
    partial[local_index] = branch.results
    k.barrier()
    while size > 1:
        half = (size + 1) // 2
        with k.if_(local_index + half < size):
            partial[local_index] += partial[local_index + half]
        k.barrier()
        size = half
    with k.if_(local_index == 0):
        sums[k.workgroup_id()] = partial[local_index]


@kernel
def histogram(k: Builder, n: U32, x: Pointer[U32], bins: U32, counts: Pointer[U32]) -> None:
    """For each bin b: counts[b] += the number of x[i] with i < n that are b modulo `bins`.

    bins: number of bins. Each instance reads every num_workgroups * workgroup_size-th x[i].
    """
    grid_size = k.num_workgroups() * k.workgroup_size
    with k.range(k.global_id(), n, grid_size) as loop:
        k.atomic_add(counts, x[loop.index] % bins, 1)


register("examples.vector_add", vector_add)
register("examples.saxpy", saxpy)
register("examples.reduce_sum", reduce_sum)
register("examples.histogram", histogram)
