"""WebGPU's adapters: their list, properties and limits."""

from __future__ import annotations

from typing import Any

from quod.codegen.wgsl.machine import WgslLimits
from quod.device import host
from quod.device.memory.budget import bytes_text
from quod.device.webgpu.native import Native
from quod.errors import DeviceError
from quod.frozen import frozen

# The package's names of adapter kinds, best first.
_KINDS = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
_BACKENDS = ("Vulkan", "Metal", "D3D12")

_GIB = 1 << 30
DISCRETE_BYTES = 4 * _GIB
"""The assumed memory of a discrete GPU, since WebGPU does not report its size."""

# NVIDIA and Apple, by their PCI ids: all their GPUs have one subgroup size.
_ONE_SUBGROUP_SIZE = frozenset({0x10DE, 0x106B})

# Assumed number of instances that fill an adapter, as WebGPU does not report it.
_RESIDENT_LANES = {"DiscreteGPU": 1 << 17, "IntegratedGPU": 1 << 14, "Unknown": 1 << 14}
_RESIDENT_LANES_A_THREAD = 256

_LIMIT_NAMES = {
    "buffer_bytes": "max-buffer-size",
    "binding_bytes": "max-storage-buffer-binding-size",
    "storage_buffers": "max-storage-buffers-per-shader-stage",
    "binding_alignment": "min-storage-buffer-offset-alignment",
    "workgroup_bytes": "max-compute-workgroup-storage-size",
    "largest_workgroup": "max-compute-invocations-per-workgroup",
    "groups_per_dimension": "max-compute-workgroups-per-dimension",
}
# Limits that are better if smaller, such as alignments.
_LEAST = frozenset({"binding_alignment"})


@frozen
class AdapterProperties:
    """The properties of an adapter.

    `kind` is ``DiscreteGPU``, ``IntegratedGPU``, ``CPU`` (a driver in software) or ``Unknown``,
    `driver` the driver's name, `backend` the API beneath WebGPU. `subgroup_sizes` are the minimum
    and maximum number of instances of a subgroup.
    """

    number: int
    name: str
    driver: str
    backend: str
    kind: str
    features: frozenset[str]
    limits: WgslLimits
    subgroup_sizes: tuple[int, int]
    vendor: int = 0

    @property
    def has_one_subgroup_size(self) -> bool:
        """True if all kernels have subgroups of one size.

        If the driver does not report the sizes, NVIDIA's and Apple's GPUs are assumed to have one
        size.
        """
        min_size, max_size = self.subgroup_sizes
        return min_size == max_size and (min_size > 0 or self.vendor in _ONE_SUBGROUP_SIZE)

    @property
    def description(self) -> str:
        """Name, driver and the API beneath WebGPU, for human readers."""
        driver = f", {self.driver}" if self.driver else ""
        return f"{self.name}{driver}, through {self.backend}"

    @property
    def is_software(self) -> bool:
        return self.kind == "CPU"

    @property
    def resident_lanes(self) -> int:
        """Number of instances that fill the adapter, by its kind."""
        if self.is_software:
            return _RESIDENT_LANES_A_THREAD * host.usable_threads()
        return _RESIDENT_LANES[self.kind]

    @property
    def default_budget(self) -> int:
        """Default memory budget in bytes, since WebGPU reports no size of memory.

        4 GiB of a discrete GPU's memory; otherwise half of the free host memory.
        """
        if self.kind == "DiscreteGPU":
            return DISCRETE_BYTES
        return max(1, host.available_memory_bytes() // 2)

    def notable_features(self) -> tuple[str, ...]:
        """Describe briefly the features that limit the speed and size of kernels."""
        limits = self.limits
        words = [
            f"binding {bytes_text(limits.binding_bytes)}",
            f"workgroup {bytes_text(limits.workgroup_bytes)}",
            f"{limits.storage_buffers} buffers",
        ]
        if "shader-int64" in self.features:
            words.append("u64")
        if "subgroup" in self.features and self.has_one_subgroup_size:
            words.append("subgroups")
        return tuple(words)


def adapter_limits(limits: dict[str, int]) -> WgslLimits:
    """Select the limits that WGSL kernels depend on from all limits of an adapter or device."""
    return WgslLimits(**{name: int(limits[key]) for name, key in _LIMIT_NAMES.items()})


def required_limits(wanted: WgslLimits) -> dict[str, int]:
    """Return limits in the form that opening a device takes."""
    limits_by_key = {key: int(getattr(wanted, name)) for name, key in _LIMIT_NAMES.items()}
    limits_by_key["max-compute-workgroup-size-x"] = wanted.largest_workgroup
    return limits_by_key


def check_portable(properties: AdapterProperties) -> None:
    """Raise DeviceError for an adapter below the limits that WebGPU requires of every adapter."""
    required = WgslLimits()
    for name, key in _LIMIT_NAMES.items():
        value, required_value = getattr(properties.limits, name), getattr(required, name)
        if value > required_value if name in _LEAST else value < required_value:
            raise DeviceError(
                f"{properties.name} is not an adapter that Quod can use: its {key} is "
                f"{value}, and WebGPU requires {required_value}; update its driver or use another "
                "device"
            )


def list_adapters(native: Native) -> list[tuple[AdapterProperties, Any]]:
    """List the adapters, best first, with the package's objects; raises DeviceError if none."""
    adapters = sorted(native.adapters(), key=lambda adapter: _rank(adapter.info))
    if not adapters:
        raise DeviceError(
            "WebGPU finds no adapter: there is no driver for Vulkan, Metal or Direct3D "
            "12; install the GPU's driver, or on Debian mesa-vulkan-drivers to compute "
            "on the processor"
        )
    return [
        (_properties(native, number, adapter), adapter) for number, adapter in enumerate(adapters)
    ]


def _rank(info: Any) -> tuple[int, int]:
    return _KINDS.index(_kind(info)), _index(_BACKENDS, str(info["backend_type"]))


def _index(order: tuple[str, ...], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _kind(info: Any) -> str:
    kind = str(info["adapter_type"])
    return kind if kind in _KINDS else "Unknown"


def _properties(native: Native, number: int, adapter: Any) -> AdapterProperties:
    info = adapter.info
    return AdapterProperties(
        number=number,
        name=str(info["device"]),
        driver=str(info["description"]),
        backend=str(info["backend_type"]),
        kind=_kind(info),
        features=frozenset(adapter.features),
        limits=adapter_limits(adapter.limits),
        subgroup_sizes=native.subgroup_sizes(adapter),
        vendor=int(info["vendor_id"]),
    )


def select(
    adapters: list[tuple[AdapterProperties, Any]], selector: str
) -> tuple[AdapterProperties, Any]:
    """Select an adapter by number or part of its name; raises DeviceError if there is none."""
    if not selector:
        return adapters[0]
    if selector.isascii() and selector.isdecimal():
        if int(selector) < len(adapters):
            return adapters[int(selector)]
    else:
        for properties, adapter in adapters:
            if selector.lower() in properties.description.lower():
                return properties, adapter
    names = ", ".join(f"webgpu:{row.number} ({row.name})" for row, _ in adapters)
    raise DeviceError(f"there is no WebGPU adapter {selector!r}; there are {names}")
