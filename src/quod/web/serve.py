"""Serves a site on this machine, with the headers that its documentation asks of a server."""

from __future__ import annotations

import functools
import io
import os
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike, fspath
from typing import BinaryIO

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


_OWN_NAMES = ("localhost", "127.0.0.1")


class _Handler(SimpleHTTPRequestHandler):
    """The files of one folder with `HEADERS`; no lists of them, and nothing on the terminal.

    Asked for by another name than this machine's it refuses: a page elsewhere whose name leads here
    (DNS rebinding) could else read what is served.
    """

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

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """The answer to GET and HEAD but for the body."""
        host, _, port = self.headers.get("Host", "").partition(":")
        if host not in _OWN_NAMES or port not in ("", str(self.server.server_port)):  # type: ignore[attr-defined]
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        try:
            inside = self._is_of_the_site(self.translate_path(self.path))
        except ValueError:
            # A NUL, or a surrogate that no name of a file has.
            inside = False
        if not inside:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_of_the_site(self, path: str) -> bool:
        """Whether the path is, links followed, a file in the folder or the folder with its page."""
        folder, real = os.path.realpath(self.directory), os.path.realpath(path)
        if os.path.isdir(real):
            real = os.path.join(real, "index.html")
        return (
            os.path.isfile(real) and os.path.commonpath([folder, os.path.realpath(real)]) == folder
        )

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
