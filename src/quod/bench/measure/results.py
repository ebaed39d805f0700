"""Results files: the rows that were measured on one machine, and what that machine is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

from quod import shallow_json
from quod.bench.measure.code import sources_digest
from quod.bench.measure.harness import Identity, Measurement, identity
from quod.device.backends import backend_of
from quod.errors import InputError, OutputError


def machine(device: str = "cpu") -> dict[str, str | int]:
    """What the figures of a device were measured on."""
    import llvmlite
    import numpy

    found: dict[str, str | int] = {
        "processor": _processor(),
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "llvmlite": llvmlite.__version__,
    }
    backend = backend_of(device)
    return found if backend is None else {**found, **backend.facts(device)}


def told_apart(name: str, facts: dict[str, str]) -> str:
    """A processor's name, with what tells its generation where that has no number.

    Virtual machines say the maker's name alone.
    """
    if any(character.isdigit() for character in name):
        return name
    known = [f"{key.removeprefix('cpu ')} {facts[key]}" for key in ("cpu family", "model")
             if key in facts]  # fmt: skip
    return f"{name} ({', '.join(known)})" if known else name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    first: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    name = first.get("model name")
    if name is not None:
        return told_apart(name, first)
    return platform.processor() or platform.machine()


def record(path: Path, rows: Sequence[Measurement]) -> None:
    """Put `rows` into a results file in place of older rows of the same name.

    The file is ``{"machine": {...}, "rows": [...]}``. Several processes may record to one file at a
    time. Raises `InputError` if `path` holds something else, or the results of another processor.
    """
    from quod.formats import write_atomically

    here = machine(rows[0].device if rows else "cpu")
    with _alone(path):
        stored = _stored(path, here)
        new = [asdict(row) for row in rows]
        replaced = {identity_of(row) for row in new}
        kept = [row for row in stored["rows"] if identity_of(row) not in replaced]
        merged = sorted([*kept, *new], key=identity_of)
        # Other interfaces to the same GPU have drivers of their own.
        result = {"machine": {**stored["machine"], **here}, "rows": merged}
        write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())


def known_rows(path: Path, device: str) -> dict[Identity, Measurement]:
    """The rows that `path` holds already and that tell their code.

    Raises what `record` would raise of such a file, before anything is measured.
    """
    rows = _stored(path, machine(device))["rows"]
    try:
        return {identity_of(row): Measurement(**row) for row in rows if row.get("code")}
    except TypeError as error:
        raise InputError(f"has a row that is none of this Quod's ({error})", path=path) from error


def _stored(path: Path, here: dict[str, str | int]) -> dict[str, Any]:
    """What a file holds of this machine; nothing yet if there is none."""
    if not path.exists():
        return {"machine": here, "rows": []}
    if not path.is_file():
        raise OutputError(f"{path}: could not be written (is no regular file); name a file")
    stored = load_results(path)
    # A GPU is one and the same beside any processor.
    for part in ("gpu",) if "gpu" in here else ("processor", "gpu"):
        if stored["machine"].get(part) != here.get(part):
            raise InputError(
                f"holds the results of {stored['machine'].get(part) or 'no GPU'}; record "
                "this machine's in a file of their own",
                path=path,
            )
    return stored


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps other recorders out: of the folder, for the file itself is replaced."""
    try:
        folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    except OSError as error:
        raise OutputError(
            f"{path}: could not be written ({os.strerror(error.errno or 0)}); "
            "choose a directory that you may write to"
        ) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


State = Literal["current", "stale", "unknown"]


def state_of(row: dict[str, Any]) -> State:
    """Whether a row is of the code that there is now, as far as that is known without running it.

    It is where the sources are the same; where they are not, kernels may be as they were, which
    the device tells. Rows that do not say which code they are of are stale.
    """
    if row.get("sources") == sources_digest():
        return "current"
    return "unknown" if row.get("code") else "stale"


# Older rows do not say which code they are of.
_NEEDED = {one.name for one in fields(Measurement)} - {"code", "sources"}


def load_results(path: Path) -> dict[str, Any]:
    """Read a results file; `InputError` if it is none."""
    try:
        stored = shallow_json.load(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"is not a results file ({error})", path=path) from error
    if (
        not isinstance(stored, dict)
        or not isinstance(stored.get("machine"), dict)
        or not isinstance(stored.get("rows"), list)
    ):
        raise InputError("is not a results file: machine and rows are missing", path=path)
    for number, row in enumerate(stored["rows"]):
        if not isinstance(row, dict) or not row.keys() >= _NEEDED:
            raise InputError(f"is not a results file: row {number} is no measurement", path=path)
    return stored


def identity_of(row: dict[str, Any]) -> Identity:
    """What tells a stored row from others."""
    return identity(row["subject"], row["parameters"], row["device"], row["peer"])
