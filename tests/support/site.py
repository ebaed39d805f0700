"""A folder served on localhost, with headers of the test's choice."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".wgsl": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}


@dataclass
class Site:
    """A server that runs; `requests` has the paths that were asked for, in order."""

    url: str
    requests: list[str] = field(default_factory=list)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files quietly, from any folder, uncached."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | TYPES

    def __init__(self, *arguments: object, headers: Mapping[str, str], site: Site, directory: str):
        self._headers, self._site = headers, site
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        for name, value in self._headers.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self) -> None:
        self._site.requests.append(self.path)
        # A page that is closed while it loads breaks the connection.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().do_GET()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Serve `folder` on a free port of localhost, which browsers count as a secure context.

    After the block the port refuses connections, as for someone who has gone offline.
    """
    site = Site("")
    handler = functools.partial(_Handler, headers=headers or {}, site=site, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    site.url = f"http://localhost:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="site", daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
