"""quod devices: the list of devices."""

from __future__ import annotations

from quod.cli.display.terminal import note, show_json, show_table
from quod.cli.parameters import AsJson


def devices(as_json: AsJson = False) -> None:
    """List the names that --device takes."""
    from quod.device import devices as find_devices
    from quod.device.backends import backends

    infos = find_devices()
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
                for device in infos
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
                _joined(device.features),
            )
            for device in infos
        ],
        right=("threads", "memory"),
    )
    kinds = {device.kind for device in infos}
    for backend in backends():
        why_not = None if backend.name in kinds else backend.why_not()
        if why_not is not None:
            note(f"no {backend.title}: {why_not}")


def _joined(features: tuple[str, ...]) -> str:
    """Join features by spaces, or by commas if one has several words."""
    return (", " if any(" " in feature for feature in features) else " ").join(features)
