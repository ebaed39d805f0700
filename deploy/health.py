"""Whether a server takes work: exit code 0 if it does, 1 if not. For containers and units.

    python health.py unix:/var/lib/quod/data/http.sock
    python health.py http://127.0.0.1:8080 --live
    python health.py unix:/var/lib/quod/data/http.sock --wait 600

By default it must be ready (its keys are loaded, and it does not drain); with --live it is enough
that the process answers. With --wait it is asked again for so many seconds. Needs nothing but
Python.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import sys
import time
from urllib.parse import urlsplit

SECONDS = 4.0


class _Unix(http.client.HTTPConnection):
    """HTTP over a socket that is a file."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


def connection(address: str) -> http.client.HTTPConnection:
    """To `unix:PATH`, or a URL of http or https."""
    if address.startswith("unix:"):
        return _Unix(address.removeprefix("unix:"))
    url = urlsplit(address)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    if url.scheme not in kinds or url.hostname is None:
        raise ValueError(f"{address!r} is neither unix:PATH nor a URL")
    return kinds[url.scheme](url.hostname, url.port, timeout=SECONDS)


def problem(address: str, path: str) -> str:
    """What is wrong with the server at an address; empty if nothing is."""
    try:
        asked = connection(address)
        asked.request("GET", path)
        answer = asked.getresponse()
        said = answer.read(200).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    return "" if answer.status == 200 else f"{answer.status} {said}"


def main(arguments: list[str]) -> int:
    """Asks, and says what is wrong on standard error."""
    parser = argparse.ArgumentParser(description="Whether a server of proofs takes work.")
    parser.add_argument("address", help="unix:PATH, or a URL")
    parser.add_argument("--live", action="store_true", help="only whether it answers")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    path = "/health/live" if given.live else "/health/ready"
    end = time.monotonic() + given.wait
    try:
        while found := problem(given.address, path):
            if time.monotonic() >= end:
                print(f"health.py: {found}", file=sys.stderr)
                return 1
            time.sleep(min(1.0, max(end - time.monotonic(), 0.0)))
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
