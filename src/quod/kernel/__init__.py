"""The kernel language: a Python function is traced into a small typed IR (docs/language.md).

The public names load on first use: a process that finds compiled code in the cache never traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder as Builder
    from quod.kernel.builder.structs import Struct as Struct
    from quod.kernel.definition import KernelDefinition as KernelDefinition
    from quod.kernel.definition import function as function
    from quod.kernel.definition import kernel as kernel
    from quod.kernel.errors import AssertionFailure as AssertionFailure
    from quod.kernel.errors import TraceError as TraceError
    from quod.kernel.errors import VerificationFailure as VerificationFailure
    from quod.kernel.ir.nodes import Block as Block
    from quod.kernel.ir.nodes import Function as Function
    from quod.kernel.ir.nodes import Kernel as Kernel
    from quod.kernel.ir.nodes import Location as Location
    from quod.kernel.ir.nodes import Op as Op
    from quod.kernel.ir.types import Type as Type
    from quod.kernel.ir.types import bf16 as bf16
    from quod.kernel.ir.types import bool_ as bool_
    from quod.kernel.ir.types import e4m3 as e4m3
    from quod.kernel.ir.types import e5m2 as e5m2
    from quod.kernel.ir.types import f16 as f16
    from quod.kernel.ir.types import f32 as f32
    from quod.kernel.ir.types import f64 as f64
    from quod.kernel.ir.types import i8 as i8
    from quod.kernel.ir.types import i16 as i16
    from quod.kernel.ir.types import i32 as i32
    from quod.kernel.ir.types import i64 as i64
    from quod.kernel.ir.types import pointer as pointer
    from quod.kernel.ir.types import u8 as u8
    from quod.kernel.ir.types import u16 as u16
    from quod.kernel.ir.types import u32 as u32
    from quod.kernel.ir.types import u64 as u64
    from quod.kernel.ir.value import BF16 as BF16
    from quod.kernel.ir.value import E4M3 as E4M3
    from quod.kernel.ir.value import E5M2 as E5M2
    from quod.kernel.ir.value import F16 as F16
    from quod.kernel.ir.value import F32 as F32
    from quod.kernel.ir.value import F64 as F64
    from quod.kernel.ir.value import I8 as I8
    from quod.kernel.ir.value import I16 as I16
    from quod.kernel.ir.value import I32 as I32
    from quod.kernel.ir.value import I64 as I64
    from quod.kernel.ir.value import U8 as U8
    from quod.kernel.ir.value import U16 as U16
    from quod.kernel.ir.value import U32 as U32
    from quod.kernel.ir.value import U64 as U64
    from quod.kernel.ir.value import Bool as Bool
    from quod.kernel.ir.value import Pointer as Pointer
    from quod.kernel.ir.value import Value as Value
    from quod.kernel.machine import Machine as Machine
else:
    __getattr__, __dir__ = lazy_names(__name__)
