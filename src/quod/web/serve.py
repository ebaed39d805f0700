"""Serve a site on this machine, with the HTTP headers that docs/web.md recommends."""

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
"""The headers that a server should send with every file of a site."""


_LOCAL_NAMES = ("localhost", "127.0.0.1")


class _Handler(SimpleHTTPRequestHandler):
    """Serve the files of one folder with `HEADERS`, without directory listings or log output.

    The Host header must name localhost or 127.0.0.1, without a port or with the server's. Other
    requests are refused: a remote page whose name resolves to this machine (DNS rebinding) could
    otherwise read the files.
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
        """Send the headers of GET and HEAD; return the body's file, or None after an error."""
        host, _, port = self.headers.get("Host", "").partition(":")
        if host not in _LOCAL_NAMES or port not in ("", str(self.server.server_port)):  # type: ignore[attr-defined]
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        try:
            is_in_site = self._is_in_site(self.translate_path(self.path))
        except ValueError:
            # The path has a NUL or a surrogate, which file names cannot have.
            is_in_site = False
        if not is_in_site:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_in_site(self, path: str) -> bool:
        """Report whether the path, with links resolved, is a file of the folder or a subfolder.

        The path of a folder stands for its ``index.html``.
        """
        folder, real_path = os.path.realpath(self.directory), os.path.realpath(path)
        if os.path.isdir(real_path):
            real_path = os.path.join(real_path, "index.html")
        return (
            os.path.isfile(real_path)
            and os.path.commonpath([folder, os.path.realpath(real_path)]) == folder
        )

    def log_message(self, format: str, *args: object) -> None:
        pass


def site_server(folder: str | PathLike[str], port: int = 0) -> ThreadingHTTPServer:
    """Return a server that accepts connections from this machine only; run its `serve_forever`.

    port: the port; 0 chooses a free port.
    Raises OutputError if the port is in use.
    """
    handler = functools.partial(_Handler, directory=fspath(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise OutputError(
            f"port {port}: could not be opened ({error.strerror}); choose another with --port"
        ) from error
