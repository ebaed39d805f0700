"""The kernel language: a Python function is traced into a small typed IR (docs/language.md)."""

from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structs import Struct
from quod.kernel.definition import KernelDefinition, function, kernel
from quod.kernel.errors import AssertionFailure, TraceError, VerificationFailure
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op
from quod.kernel.ir.types import (
    Type,
    bf16,
    bool_,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    pointer,
    u8,
    u16,
    u32,
    u64,
)
from quod.kernel.ir.value import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    Pointer,
    Value,
)
from quod.kernel.machine import Machine

__all__ = [
    "AssertionFailure", "BF16", "E4M3", "E5M2", "F16", "F32", "F64", "I8", "I16", "I32", "I64",
    "U8", "U16", "U32", "U64", "Block", "Bool", "Builder", "Function",
    "Kernel", "KernelDefinition", "Location", "Machine", "Op", "Pointer", "Struct", "TraceError",
    "Type", "Value", "VerificationFailure", "bf16", "bool_", "e4m3", "e5m2", "f16", "f32", "f64",
    "function", "i8", "i16", "i32", "i64", "kernel", "pointer", "u8", "u16", "u32", "u64",
]  # fmt: skip
