"""Results files: the rows measured on one machine, and a description of the machine."""

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
    """Describe the machine, including the device."""
    import llvmlite
    import numpy

    facts: dict[str, str | int] = {
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
    return facts if backend is None else {**facts, **backend.facts(device)}


def distinct_cpu_name(name: str, facts: dict[str, str]) -> str:
    """Return a CPU's name, with family and model if it has no number.

    Virtual machines report only the vendor's name.
    """
    if any(character.isdigit() for character in name):
        return name
    numbers = [f"{key.removeprefix('cpu ')} {facts[key]}" for key in ("cpu family", "model")
             if key in facts]  # fmt: skip
    return f"{name} ({', '.join(numbers)})" if numbers else name


def _processor() -> str:
    """Return the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    first_values: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        first_values.setdefault(key.strip(), value.strip())
    name = first_values.get("model name")
    if name is not None:
        return distinct_cpu_name(name, first_values)
    return platform.processor() or platform.machine()


def record(path: Path, rows: Sequence[Measurement]) -> None:
    """Merge `rows` into a results file, replacing rows with the same identity.

    The file is ``{"machine": {...}, "rows": [...]}``. Several processes may record to a file
    concurrently. Raises InputError if `path` holds something else or results of another machine.
    """
    from quod.formats import write_atomically

    this_machine = machine(rows[0].device if rows else "cpu")
    with _lock_folder(path):
        stored = _read_stored(path, this_machine)
        new_rows = [asdict(row) for row in rows]
        new_identities = {identity_of(row) for row in new_rows}
        kept_rows = [row for row in stored["rows"] if identity_of(row) not in new_identities]
        merged = sorted([*kept_rows, *new_rows], key=identity_of)
        # Keep the facts that other backends of the same GPU recorded, such as their drivers.
        result = {"machine": {**stored["machine"], **this_machine}, "rows": merged}
        write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())


def known_rows(path: Path, device: str) -> dict[Identity, Measurement]:
    """Return the rows of `path` that have a code hash.

    Raises the errors of `record` before anything is measured.
    """
    rows = _read_stored(path, machine(device))["rows"]
    try:
        return {identity_of(row): Measurement(**row) for row in rows if row.get("code")}
    except TypeError as error:
        raise InputError(
            f"has a row with other fields than this version of Quod writes ({error})", path=path
        ) from error


def _read_stored(path: Path, this_machine: dict[str, str | int]) -> dict[str, Any]:
    """Read the results of this machine; empty if there is no file."""
    if not path.exists():
        return {"machine": this_machine, "rows": []}
    if not path.is_file():
        raise OutputError(
            f"{path}: could not be written (it is not a regular file); name another file"
        )
    stored = load_results(path)
    # Figures of a GPU do not depend on the CPU.
    for part in ("gpu",) if "gpu" in this_machine else ("processor", "gpu"):
        if stored["machine"].get(part) != this_machine.get(part):
            raise InputError(
                f"has the results of {stored['machine'].get(part) or 'no GPU'}; record "
                "the results of this machine in another file",
                path=path,
            )
    return stored


@contextlib.contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Lock the folder against other recorders, as the file itself is replaced."""
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
    """Report whether a row was measured with the present code, as far as known without a run.

    It is current if the sources are equal. Otherwise its kernels may still be unchanged, which only
    a run shows. Rows without a code hash are stale.
    """
    if row.get("sources") == sources_digest():
        return "current"
    return "unknown" if row.get("code") else "stale"


# The fields that a stored row must have. Older rows have no hashes.
_NEEDED = {field.name for field in fields(Measurement)} - {"code", "sources"}


def load_results(path: Path) -> dict[str, Any]:
    """Read a results file; raises InputError if it is malformed."""
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
            raise InputError(f"is not a results file: row {number} is not a measurement", path=path)
    return stored


def identity_of(row: dict[str, Any]) -> Identity:
    """Return the identity of a stored row."""
    return identity(row["subject"], row["parameters"], row["device"], row["peer"])
