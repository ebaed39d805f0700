"""Executes PTX text with NumPy, all lanes of a workgroup at once.

Written from the PTX ISA and not from the emitter's tables, so that a mistake of the emitter shows
as a difference from the kernel's own interpreter.
"""

from quod.codegen.ptx.interpreter.execute import interpret_ptx

__all__ = ["interpret_ptx"]
