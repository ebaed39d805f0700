"""The C types that WebGPU's package uses at run time, parsed in one step.

The package passes C types as text. `cffi` parses each new text together with the names of the whole
header: 36 times 60 ms in the first seconds of a process. Here all types are the fields of one
structure, which is parsed once. A type that is not in the list is parsed as before.
"""

from __future__ import annotations

from typing import Any

# The texts are exactly those that the package passes, spaces included.
_POINTERS = (
    "WGPUAdapterInfo", "WGPUBindGroupDescriptor", "WGPUBindGroupEntry",
    "WGPUBindGroupLayoutDescriptor", "WGPUBindGroupLayoutEntry", "WGPUBufferBindingLayout",
    "WGPUBufferDescriptor", "WGPUBufferMapCallbackInfo", "WGPUChainedStruct",
    "WGPUCommandBufferDescriptor", "WGPUCommandEncoderDescriptor", "WGPUComputePassDescriptor",
    "WGPUComputePipelineDescriptor", "WGPUComputeState", "WGPUDeviceDescriptor",
    "WGPUDeviceExtras", "WGPUDeviceLostCallbackInfo", "WGPUInstanceDescriptor",
    "WGPUInstanceExtras", "WGPULimits", "WGPUNativeLimits", "WGPUPassTimestampWrites",
    "WGPUPipelineLayoutDescriptor", "WGPUQuerySetDescriptor", "WGPUQueueDescriptor",
    "WGPURequestDeviceCallbackInfo", "WGPUShaderModuleDescriptor", "WGPUShaderSourceWGSL",
    "WGPUStringView", "WGPUUncapturedErrorCallbackInfo",
)  # fmt: skip
_ARRAYS = (
    "WGPUAdapter[]", "WGPUBindGroupEntry[]", "WGPUBindGroupLayoutEntry[]", "WGPUBindGroupLayout[]",
    "WGPUCommandBuffer[]", "WGPUFeatureName[]", "char []", "char[]", "uint32_t []", "uint8_t []",
)  # fmt: skip
_PLAIN = ("char *", "uint8_t *", "void *", "uintptr_t", "WGPUChainedStruct * ")
_FUNCTIONS = (
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)


def parse_types(ffi: Any) -> None:
    """Register the types with `ffi`, unless this version of cffi stores types differently."""
    parsed_types = getattr(ffi, "_parsed_types", None)
    new_array = getattr(getattr(ffi, "_backend", None), "new_array_type", None)
    if not isinstance(parsed_types, dict) or new_array is None:
        return
    rows = [(f"{name} *", f"{name} * {{}}") for name in _POINTERS]
    rows += [(text, f"{text} {{}}") for text in _PLAIN]
    rows += [(text, f"{text.split('[')[0].strip()} * {{}}") for text in _ARRAYS]
    rows += [(text, f"void (*{{}}){text.removeprefix('void')}") for text in _FUNCTIONS]
    fields = " ".join(
        declaration.format(f"field{number}") + ";" for number, (_, declaration) in enumerate(rows)
    )
    ffi.cdef(f"struct quod_types {{ {fields} }};")
    field_types = dict(ffi.typeof("struct quod_types").fields)
    for number, (text, _) in enumerate(rows):
        ctype = field_types[f"field{number}"].type
        if text in _ARRAYS:
            ctype = new_array(ctype, None)
        # cffi stores each type with a flag that tells whether it is a function type.
        parsed_types.setdefault(text, (ctype, text in _FUNCTIONS))
