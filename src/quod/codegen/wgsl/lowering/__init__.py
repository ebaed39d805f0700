"""What WGSL has no word for, made of what it has: before a kernel is written as WGSL.

WGSL knows 32-bit numbers, arrays of them at the outermost level, and no pointer that a value could
be. So the lowered kernel, which is IR like any other,

- holds a 64-bit integer as two 32-bit halves, or as WGSL's own where the machine has ``u64``;
- reaches memory through its parameters, shared and private arrays alone, as arrays of u32, with an
  index in words that gathers all pointer arithmetic;
- makes narrow stores of atomic additions, and carries of comparisons;
- exchanges values of a subgroup through shared memory where the machine has ``slow_subgroup``.

Device functions are lowered once for each choice of arrays that their pointers may be in.
"""

from quod.codegen.wgsl.lowering.kernel import LoweredKernel, lower

__all__ = ["LoweredKernel", "lower"]
