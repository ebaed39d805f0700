"""An interpreter of PTX text with NumPy, for all lanes of a workgroup at once.

It is written from the PTX ISA, independently of the emitter's tables, so that emitter bugs show up
as differences from the kernel interpreter.
"""

from quod.codegen.ptx.interpreter.execute import interpret_ptx

__all__ = ["interpret_ptx"]
