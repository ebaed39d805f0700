"""WebGPU's adapters as a kind of device; `quod.device.webgpu.names` defines their names."""

from __future__ import annotations

from collections.abc import Mapping

from quod.device.backends import Backend, DeviceInfo, DeviceListing, Options
from quod.device.protocol import AnyDevice
from quod.device.webgpu.names import is_webgpu_name, parse_name
from quod.errors import DeviceError

# Both names of an adapter open the same device.
_NUMBERED = {"webgpu": "webgpu:0", "webgpu:portable": "webgpu:0:portable"}


def _parse(name: str) -> str | None:
    return _NUMBERED.get(name, name) if is_webgpu_name(name) else None


def _list() -> DeviceListing:
    from quod.device.webgpu.adapter import list_adapters
    from quod.device.webgpu.native import open_native

    try:
        adapters = list_adapters(open_native())
    except DeviceError as error:
        return [], str(error)
    rows = [
        DeviceInfo(
            name=f"webgpu:{adapter.number}",
            kind="webgpu",
            description=adapter.description,
            features=adapter.notable_features(),
            threads=adapter.resident_lanes,
            memory_bytes=0,
        )
        for adapter, _ in adapters
    ]
    return rows, None


def _open(name: str, options: Options) -> AnyDevice:
    from quod.device.webgpu.device import WebGpuDevice

    adapter, strength = parse_name(name)
    return WebGpuDevice(
        adapter, strength=strength or "extended", memory_budget=options.memory_budget
    )


def _facts(name: str) -> Mapping[str, str]:
    """Return the facts on which measurements depend: the adapter, and how the device uses it."""
    from quod.device.discovery import resolve_device
    from quod.device.webgpu.device import WebGpuDevice

    # An open device has already chosen its limbs.
    device = resolve_device(name)
    assert isinstance(device, WebGpuDevice)
    adapter = device.properties
    words = [
        f"through {adapter.backend}",
        adapter.driver and f"driver {adapter.driver}",
        f"wgpu {device.session.native.wgpu.__version__}",
        "portable" if device.strength == "portable" else "all that the adapter has",
        f"limbs {device.limbs}",
    ]
    return {"gpu": adapter.name, name: ", ".join(word for word in words if word)}


BACKEND = Backend("webgpu", "WebGPU", ("webgpu", "webgpu:0"), _parse, _list, _open, _facts)
