"""quod devices: what is there to compute on."""

from __future__ import annotations

from quod.cli.options import AsJson
from quod.cli.terminal import note, show_json, show_table

_SEPARATORS = {"webgpu": ", "}


def devices(as_json: AsJson = False) -> None:
    """List the devices that --device can name."""
    from quod.device import devices as find_devices
    from quod.device.discovery import why_no_gpu, why_no_processor, why_no_webgpu

    found = find_devices()
    if as_json:
        show_json(
            [
                {
                    "name": device.name,
                    "kind": device.kind,
                    "description": device.description,
                    "features": list(device.features),
                    "threads": device.threads,
                    "memory_bytes": device.memory_bytes,
                }
                for device in found
            ]
        )
        return
    show_table(
        ("name", "kind", "description", "threads", "memory", "features"),
        [
            (
                device.name,
                device.kind,
                device.description,
                str(device.threads),
                f"{device.memory_bytes / 2**30:.1f} GiB" if device.memory_bytes else "",
                _SEPARATORS.get(device.kind, " ").join(device.features),
            )
            for device in found
        ],
        right=("threads", "memory"),
    )
    no_processor = why_no_processor()
    if no_processor is not None:
        note(f"no processor: {no_processor}")
    if not any(device.kind == "cuda" for device in found):
        note(f"no NVIDIA GPU: {why_no_gpu()}")
    if not any(device.kind == "webgpu" for device in found):
        note(f"no WebGPU: {why_no_webgpu()}")
