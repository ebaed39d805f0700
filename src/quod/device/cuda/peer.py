"""Copies between the memories of two GPUs with peer access, over NVLink or PCIe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.device.cuda.driver import CudaError
from quod.device.cuda.stream import wait_until
from quod.device.memory.buffer import Buffer

if TYPE_CHECKING:
    from quod.device.cuda.device import CudaDevice

_ALREADY = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
_COPY_BYTES = 1 << 30


def open_peer(source: CudaDevice, target: CudaDevice) -> bool:
    """Enable direct writes from `source` to the memory of `target`; return whether that works."""
    if source.ordinal == target.ordinal:
        return True
    with target.using():
        context = target.driver.cuCtxGetCurrent()
    with source.using(lambda: f"asking whether it reaches {target.name}"):
        driver = source.driver
        handles = (driver.cuDeviceGet(device.ordinal) for device in (source, target))
        if not driver.cuDeviceCanAccessPeer(*handles):
            return False
        try:
            driver.cuCtxEnablePeerAccess(context, 0)
        except CudaError as error:
            if error.code != _ALREADY:
                raise
    return True


def copy_to_peer(
    source: CudaDevice, target: CudaDevice, source_memory: Buffer, into: Buffer
) -> None:
    """Copy a buffer of `source` to one of `target` of the same size, and wait."""
    with target.using():
        context = target.driver.cuCtxGetCurrent()
    with source.using(lambda: f"copying memory to {target.name}"):
        driver, work = source.driver, source.begin((source_memory, into))
        source_context = driver.cuCtxGetCurrent()
        try:
            for start in range(0, source_memory.nbytes, _COPY_BYTES):
                size = min(_COPY_BYTES, source_memory.nbytes - start)
                driver.cuMemcpyPeerAsync(
                    into.address + start,
                    context,
                    source_memory.address + start,
                    source_context,
                    size,
                    work.stream,
                )
        finally:
            work.mark_enqueued()
        wait_until(work.is_ready)
