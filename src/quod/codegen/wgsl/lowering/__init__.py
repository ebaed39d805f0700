"""Lowering of kernels to the subset of the IR that WGSL can express.

WGSL has 32-bit numbers, arrays at module scope, and no pointers as first-class values. In the
lowered kernel, which is ordinary IR:

- a 64-bit integer is two 32-bit halves, or native if the machine has ``u64``;
- memory is arrays of u32 (parameters, shared and private arrays), accessed by an index in words
  that includes all pointer arithmetic;
- narrow stores are atomic additions, and carries are comparisons;
- subgroups exchange values through shared memory if the machine has ``slow_subgroup``.

Device functions are specialised by the arrays that their pointers refer to.
"""

from quod.codegen.wgsl.lowering.kernel import LoweredKernel, lower

__all__ = ["LoweredKernel", "lower"]
