"""The log of a server and its workers: lines of JSON or text on standard error.

No line contains a value of a witness. An unexpected error is logged by its type and the code
positions of its traceback, without its text, which may contain secrets. For the same reason, only
the first line of the message template of another library's record is logged, without arguments.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from quod import shallow_json
from quod.errors import QuodError

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_FIELDS: Final = "quod_fields"
"""The attribute with the fields of a record that another process has formatted."""

_MAX_LINE_CHARACTERS: Final = 500

_log = logging.getLogger(__name__)


class LineFormatter(logging.Formatter):
    """A formatter of records as one line of JSON or text."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, _FIELDS, None) or _fields(record))
        if self._as_json:
            return json.dumps(fields, default=str)
        head = [fields.pop(name) for name in ("time", "level", "message")]
        return " ".join([*head, *(f"{name}={value}" for name, value in fields.items())])


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    is_own = record.name.partition(".")[0] == "quod"
    message = record.getMessage() if is_own else str(record.msg).partition("\n")[0]
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": message,
    }
    if is_own:
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = _describe(record.exc_info[1])
    return fields


def _describe(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    description: dict[str, Any] = {
        "kind": type(error).__name__,
        "places": [
            f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames
        ],
    }
    if isinstance(error, QuodError):
        description["message"] = str(error)
    return description


def write_log(level: str, *, as_json: bool) -> None:
    """Send the log of this process to standard error.

    Python's own output on standard error becomes log records too: warnings, errors that end a
    thread or the process, and errors that Python ignores.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("quod").setLevel(level.upper())
    # Uvicorn warns of each malformed request, which anyone can send.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    warnings.showwarning = _log_warning
    sys.excepthook = lambda *error: _log_error("the process ended with an error", error)
    threading.excepthook = _log_error_of_thread
    sys.unraisablehook = lambda hook: _log_error(
        "an error in a destructor or callback was ignored",
        (hook.exc_type, hook.exc_value, hook.exc_traceback),
    )


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    position = f"{os.path.basename(filename)}:{lineno}"
    _log.warning("a library issued a warning", extra={"kind": category.__name__, "place": position})


def _log_error_of_thread(hook: threading.ExceptHookArgs) -> None:
    if hook.exc_type is not SystemExit:
        error = hook.exc_type, hook.exc_value, hook.exc_traceback
        _log_error("a thread ended with an error", error)


def _log_error(message: str, error: tuple[Any, Any, Any]) -> None:
    _log.error(message, exc_info=error)


def log_line(line: bytes, fields: Mapping[str, str]) -> None:
    """Log a line of another process's standard error, with additional `fields`.

    A line in this module's JSON format keeps its fields; any other line becomes the text of a
    record.
    """
    try:
        entry = shallow_json.load(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"time", "level", "logger", "message"} <= set(entry):
        text = line.decode(errors="replace").strip()[:_MAX_LINE_CHARACTERS]
        if text:
            _log.warning("a line on standard error", extra={"text": text, **fields})
        return
    level = logging.getLevelNamesMapping().get(str(entry["level"]).upper(), logging.ERROR)
    record = logging.makeLogRecord({
        "name": str(entry["logger"]), "levelno": level, "levelname": logging.getLevelName(level),
        "msg": str(entry["message"]), _FIELDS: {**entry, **fields},
    })  # fmt: skip
    logging.getLogger(record.name).handle(record)
