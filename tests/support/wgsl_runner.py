"""Runs kernels as WGSL on the Vulkan drivers here, with nothing of Quod's device in between.

A driver is named by a part of its name: ``llvmpipe`` (Mesa's lavapipe) and ``swiftshader`` run on
the processor; ``gpu`` is the first that does not. Where a kernel has more pointers than the driver
has bindings, or `merged` asks for it, all of them are offsets in one binding.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wgpu

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.codegen.wgsl.module import Binding, WgslModule
from quod.kernel import Machine
from quod.kernel.ir.nodes import Kernel
from tests.support.devices import is_required

Array = np.ndarray[Any, Any]
Argument = Array | int | float | bool

_DIMENSION = 65535

_PROBE = """@group(0) @binding(0) var<uniform> unused: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> found: array<u32>;
@compute @workgroup_size(128) fn main(@builtin(local_invocation_index) local_id: u32,
    @builtin(subgroup_size) size: u32, @builtin(subgroup_invocation_id) lane: u32) {
  found[local_id] = select(0u, size, lane == local_id % size);
}"""


class DriverError(RuntimeError):
    """There is no such driver, or it refused a module."""


class WgslRunner:
    """One driver, with 64-bit integers and subgroups where it has them."""

    def __init__(self, name: str) -> None:
        self.name = name
        adapter = _adapter(name)
        offered = set(adapter.features)
        wanted = sorted(offered & {"shader-int64", "subgroup"})
        self._device = adapter.request_device_sync(required_features=wanted)
        self._max_bindings: int = adapter.limits["max-storage-buffers-per-shader-stage"]
        size = self._subgroup_size() if "subgroup" in wanted else 0
        self.strengths = {
            "portable": PORTABLE,
            "extended": WgslTarget(u64="shader-int64" in wanted, subgroup_size=size),
        }

    def run(
        self, kernel: Kernel, machine: Machine, groups: int, arguments: Sequence[Argument],
        *, merged: bool = False,
    ) -> WgslModule:  # fmt: skip
        """Run so many workgroups on arrays, which are changed in place, and numbers."""
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        sizes = [-(-max(a.nbytes, 4) // 4) for a in arrays]
        if merged := merged or len(arrays) > self._max_bindings:
            starts = np.cumsum([0, *sizes]).tolist()
            bindings = tuple(Binding(0, offset=True) for _ in arrays)
            contents = [b"".join(map(_padded, arrays))]
        else:
            starts = [0] * len(arrays)
            bindings = tuple(map(Binding, range(len(arrays))))
            contents = [_padded(array) for array in arrays]
        module = wgsl.translate(kernel, machine, dialect="naga", bindings=bindings)
        places = iter(starts)
        numbers = [next(places) if isinstance(a, np.ndarray) else a for a in arguments]
        outputs = self._dispatch(module, groups, module.pack(groups, numbers), contents)
        for index, array in enumerate(arrays):
            words = outputs[0 if merged else index][4 * starts[index] :]
            array.reshape(-1).view(np.uint8)[:] = words[: array.nbytes]
        return module

    def _dispatch(
        self, module: WgslModule, groups: int, parameters: bytes, contents: list[bytes]
    ) -> list[Array]:
        device, usage = self._device, wgpu.BufferUsage
        pipeline, layout = self._pipeline(module.text, module.storage)
        uniform = device.create_buffer_with_data(data=parameters, usage=usage.UNIFORM)
        kinds = usage.STORAGE | usage.COPY_SRC
        buffers = [device.create_buffer_with_data(data=data, usage=kinds) for data in contents]
        bound = enumerate([uniform, *buffers])
        entries = [{"binding": number, "resource": {"buffer": buffer}} for number, buffer in bound]
        encoder = device.create_command_encoder()
        step = encoder.begin_compute_pass()
        step.set_pipeline(pipeline)
        step.set_bind_group(0, device.create_bind_group(layout=layout, entries=entries))
        width = max(min(groups, _DIMENSION), 1)
        step.dispatch_workgroups(width, -(-groups // width))
        step.end()
        device.queue.submit([encoder.finish()])
        return [np.frombuffer(device.queue.read_buffer(b), np.uint8) for b in buffers]

    def _pipeline(self, text: str, storage: int) -> tuple[Any, Any]:
        device = self._device
        rows = [
            {
                "binding": number,
                "visibility": wgpu.ShaderStage.COMPUTE,
                "buffer": {"type": "storage" if number else "uniform"},
            }
            for number in range(storage + 1)
        ]
        layout = device.create_bind_group_layout(entries=rows)
        try:
            pipeline = device.create_compute_pipeline(
                layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={
                    "module": device.create_shader_module(code=text),
                    "entry_point": "main",
                },
            )
        except wgpu.GPUError as error:
            file = Path(tempfile.gettempdir()) / "quod-refused.wgsl"
            file.write_text(text)
            raise DriverError(f"{self.name} refuses {file}: {error}") from error
        return pipeline, layout

    def _subgroup_size(self) -> int:
        """Instances a subgroup, or 0 if they are not those that follow one another."""
        module = WgslModule(_PROBE, "main", 128, (), 1, 4, (), "naga", ())
        (lane_sizes,) = self._dispatch(module, 1, bytes(16), [bytes(4 * 128)])
        sizes = set(lane_sizes.view(np.uint32).tolist())
        return sizes.pop() if len(sizes) == 1 else 0


@functools.cache
def runner(name: str) -> WgslRunner:
    """The runner of a driver, opened once; DriverError if there is no such driver."""
    return WgslRunner(name)


@functools.cache
def _adapters() -> list[Any]:
    adapters = wgpu.gpu.enumerate_adapters_sync()
    return [adapter for adapter in adapters if adapter.info["backend_type"] == "Vulkan"]


def _adapter(name: str) -> Any:
    for adapter in _adapters():
        if name == "gpu" and adapter.info["adapter_type"] != "CPU":
            return adapter
        if name in adapter.info["device"].lower():
            return adapter
    raise DriverError(f"there is no {name} among the Vulkan drivers")


def _present() -> tuple[str, ...]:
    """The drivers of this machine, and those that the environment says it has."""
    names = []
    for name in ("llvmpipe", "swiftshader", "gpu"):
        try:
            _adapter(name)
        except DriverError:
            if name == "gpu" or not is_required("drivers"):
                continue
        names.append(name)
    return tuple(names)


DRIVERS = _present()
"""The drivers that tests run on."""


def _padded(array: Array) -> bytes:
    data = array.tobytes()
    return data + bytes(-len(data) % 4) if data else bytes(4)
