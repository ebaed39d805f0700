"""A server of Filecoin proofs in a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quod.service.keys import KeyRepository
from tests.service.server.running_server import ConfiguredServer


class FilecoinServer(ConfiguredServer):
    """A server with the parameters of a folder."""

    def __init__(self, folder: Path, params: Path, **fields: Any) -> None:
        KeyRepository(folder / "keys", create=True)
        config = {
            "data": folder, "filecoin": {"params": params, "insecure_test_key": True},
            "queue": {"ballast_bytes": 4096}, "requests": {"message_bytes": 4 << 20},
        }  # fmt: skip
        super().__init__(config | fields)
