"""Serves a site on this machine, with the headers that its documentation asks of a server."""

from __future__ import annotations

import functools
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike, fspath

from quod.errors import OutputError

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What a server should send with every file of a site."""


class _Handler(SimpleHTTPRequestHandler):
    """Files with `HEADERS`, and nothing on the terminal."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".wasm": "application/wasm",
        ".json": "application/json",
    }

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def site_server(folder: str | PathLike[str], port: int = 0) -> ThreadingHTTPServer:
    """A server for this machine alone; `serve_forever` runs it, port 0 takes a free one.

    OutputError if the port is taken.
    """
    handler = functools.partial(_Handler, directory=fspath(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise OutputError(
            f"port {port}: could not be opened ({error.strerror}); name another with --port"
        ) from error
