"""NVIDIA's GPUs as a kind of device: ``cuda`` is the first GPU, ``cuda:1`` GPU number 1."""

from __future__ import annotations

from collections.abc import Mapping

from quod.device.backends import Backend, DeviceInfo, DeviceListing, Options
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, KernelError


def _parse(name: str) -> str | None:
    if name == "cuda":
        return "cuda:0"
    number = name.removeprefix("cuda:")
    return name if number != name and number.isascii() and number.isdecimal() else None


def _list() -> DeviceListing:
    from quod.device.cuda.driver import open_driver
    from quod.device.cuda.properties import count_gpus, properties_of

    rows = []
    try:
        driver = open_driver()
        for ordinal in range(count_gpus(driver)):
            gpu = properties_of(driver, ordinal)
            rows.append(
                DeviceInfo(
                    name=f"cuda:{ordinal}",
                    kind="cuda",
                    description=gpu.description,
                    features=(gpu.arch,),
                    threads=gpu.resident_lanes,
                    memory_bytes=gpu.memory_bytes,
                )
            )
    except (DeviceError, KernelError) as error:
        return rows, str(error)
    return rows, None


def _open(name: str, options: Options) -> AnyDevice:
    from quod.device.cuda.device import CudaDevice

    number = name.partition(":")[2]
    return CudaDevice(int(number or 0), memory_budget=options.memory_budget)


def _facts(name: str) -> Mapping[str, str]:
    from quod.device.cuda.device import CudaDevice
    from quod.device.cuda.driver import version_text

    number = name.partition(":")[2]
    gpu = CudaDevice(int(number or 0)).properties
    return {"gpu": gpu.name, "driver": f"CUDA {version_text(gpu.driver_version)}"}


BACKEND = Backend("cuda", "NVIDIA GPU", ("cuda", "cuda:0"), _parse, _list, _open, _facts)
