"""A device whose streams report success and do nothing."""

from __future__ import annotations

from typing import Any

from quod.device.protocol import AnyDevice


class Idle:
    """A device like one with a faulty driver: launches leave memory unchanged."""

    def __init__(self, device: AnyDevice) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def submit(self, *_: Any, **__: Any) -> Any:
        return self

    def run(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def wait(self) -> None:
        """At once."""

    def stream(self, name: str = "stream") -> Any:
        stream = self._device.stream(name)
        stream._device = self
        return stream
