"""Properties of a GPU: name, architecture and limits."""

from __future__ import annotations

from quod.codegen.ptx.machine import architecture_name
from quod.device.cuda.driver import Driver, version_text
from quod.errors import DeviceError
from quod.frozen import frozen


@frozen
class CudaProperties:
    """The properties of one GPU as the driver reports them.

    arch: the architecture that kernels are compiled for, such as ``sm_90a``.
    shared_bytes: maximum bytes of shared memory of a workgroup.
    resident_lanes: number of instances that all multiprocessors hold at a time.
    driver_version: ``1000 * major + 10 * minor`` of CUDA.
    """

    ordinal: int
    name: str
    arch: str
    capability: tuple[int, int]
    multiprocessors: int
    lanes_per_multiprocessor: int
    largest_workgroup: int
    shared_bytes: int
    memory_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    driver_version: int

    @property
    def resident_lanes(self) -> int:
        return self.multiprocessors * self.lanes_per_multiprocessor

    @property
    def description(self) -> str:
        return (
            f"{self.name}, {self.arch}, {self.multiprocessors} multiprocessors, "
            f"CUDA {version_text(self.driver_version)}"
        )


def count_gpus(driver: Driver) -> int:
    """Return the number of GPUs that are visible to this process."""
    return int(driver.cuDeviceGetCount())


def properties_of(driver: Driver, ordinal: int) -> CudaProperties:
    """Return the properties of GPU `ordinal`; raises DeviceError if it does not exist."""
    count = count_gpus(driver)
    if not 0 <= ordinal < count:
        available = "there is none" if count == 0 else f"there are cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"there is no GPU cuda:{ordinal}; {available}")
    handle = driver.cuDeviceGet(ordinal)
    attributes = driver.api.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(
            driver.cuDeviceGetAttribute(getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), handle)
        )

    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    name = driver.cuDeviceGetName(128, handle).split(b"\0")[0].decode(errors="replace")
    return CudaProperties(
        ordinal=ordinal,
        name=name,
        arch=architecture_name(major, minor),
        capability=(major, minor),
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        lanes_per_multiprocessor=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        largest_workgroup=attribute("MAX_THREADS_PER_BLOCK"),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        memory_bytes=int(driver.cuDeviceTotalMem(handle)),
        clock_khz=attribute("CLOCK_RATE"),
        memory_clock_khz=attribute("MEMORY_CLOCK_RATE"),
        memory_bus_bits=attribute("GLOBAL_MEMORY_BUS_WIDTH"),
        driver_version=int(driver.cuDriverGetVersion()),
    )
