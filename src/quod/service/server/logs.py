"""The log of a server: a line each, as JSON or as text, with the job it is about.

Of errors that nobody expected it has the kind and the places in the code, not the text, in which
anything may stand.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from quod.errors import QuodError

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class LineFormatter(logging.Formatter):
    """Records as lines."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = _described(record.exc_info[1])
        if self._as_json:
            return json.dumps(fields, default=str)
        head = [fields.pop(name) for name in ("time", "level", "message")]
        return " ".join([*head, *(f"{name}={value}" for name, value in fields.items())])


def _described(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    found: dict[str, Any] = {
        "kind": type(error).__name__,
        "places": [f"{os.path.basename(one.filename)}:{one.lineno} {one.name}" for one in frames],
    }
    if isinstance(error, QuodError):
        found["message"] = str(error)
    return found


def write_log(level: str, *, as_json: bool) -> None:
    """Sends the log of Quod, and the warnings of what it uses, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("quod").setLevel(level.upper())
    # It warns of each request that is none, which anybody may send.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
