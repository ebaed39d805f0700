"""The opening of a command's proving key, for which a resident helper has its own function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quod.device.runtime.timeline import Timeline
    from quod.groth16 import ProvingKey

KeyOpener = Callable[[Path, str, "Timeline"], "ProvingKey"]
"""Opens the zkey of a path on a named device."""

_openers: list[KeyOpener] = []


def open_zkey(path: Path, device: str, timeline: Timeline) -> ProvingKey:
    """Open a zkey with the function of `opening_with`, by default `ProvingKey.from_zkey`."""
    if _openers:
        return _openers[-1](path, device, timeline)
    from quod.groth16 import ProvingKey

    return ProvingKey.from_zkey(path, device=device, timeline=timeline)


@contextmanager
def opening_with(opener: KeyOpener) -> Iterator[None]:
    """Open the keys of commands with `opener` during the body."""
    _openers.append(opener)
    try:
        yield
    finally:
        _openers.pop()
