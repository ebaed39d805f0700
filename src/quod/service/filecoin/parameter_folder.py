"""The folder of a server's parameters, checked before the server listens.

What is checked takes milliseconds; keys are opened by workers, and by `quod serve --check`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from quod.device.backends import backend_of
from quod.errors import InputError, InsecureKeyError
from quod.filecoin.parameters.files import AnyPath, check_parameters, download_advice
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.formats.source import existing_size
from quod.service.errors import NotFoundError
from quod.service.filecoin.circuit_ids import CIRCUITS, circuit_id, parameters_of
from quod.service.filecoin.requests import check_devices

_log = logging.getLogger(__name__)


def parameter_paths(folder: Path) -> dict[str, Path]:
    """Return the paths of the parameter files in a folder by circuit.

    Raises InputError unless the path is a folder with parameters of a circuit at least.
    """
    if not os.path.isdir(folder):
        reason = "is not a folder" if os.path.lexists(folder) else "does not exist"
        raise InputError(
            f"{reason}; name the folder of Filecoin's parameters, such as "
            "/var/tmp/filecoin-proof-parameters",
            path=str(folder),
        )
    paths = {name: folder / parameters.file_name("params") for name, parameters in CIRCUITS.items()}
    existing = {name: path for name, path in paths.items() if existing_size(path) is not None}
    if not existing:
        raise InputError(
            f"has no parameters of Filecoin's circuits; {download_advice()}, or name their folder",
            path=str(folder),
        )
    return existing


def check_served(
    folder: Path, warm: Sequence[str], devices: Sequence[str], *, allow_insecure: bool
) -> list[str]:
    """Check the files of a server; return the circuits that it can prove.

    Damaged files are logged, but those of warm circuits are errors.
    warm: names of circuits to open at the start.
    Raises NotFoundError for an unknown name, InputError for a missing folder or file, a damaged
    file and a circuit that no device can prove, and InsecureKeyError for a test key in the folder
    unless `allow_insecure`.
    """
    warm_sets = {parameters_of(name) for name in warm}
    paths = parameter_paths(folder)
    served = []
    for name, parameters in CIRCUITS.items():
        is_warm = parameters in warm_sets
        if is_warm:
            check_capable(name, devices)
            if name not in paths:
                raise InputError(
                    f"does not exist: the server lacks the parameters of {name}; "
                    f"{download_advice(parameters)}, or start without --warm {name}",
                    path=str(folder / parameters.file_name("params")),
                )
        if name not in paths:
            continue
        try:
            check_parameters(parameters, paths[name], allow_insecure=allow_insecure)
        except InsecureKeyError:
            raise
        except InputError as error:
            if is_warm:
                raise
            _log.warning("%s cannot be proved: %s", name, error)
            continue
        served.append(name)
    return served


def require_parameters(folder: AnyPath, parameters: ParameterSet) -> None:
    """Raise NotFoundError, for clients, unless a folder has the parameter file of a set."""
    if existing_size(Path(folder) / parameters.file_name("params")) is None:
        raise NotFoundError(
            f"the server has no parameters of {circuit_id(parameters)}; copy their file to its "
            "folder"
        )


def check_capable(name: str, devices: Sequence[str]) -> None:
    """Raise InputError if all devices are CPUs and the circuit needs a GPU.

    Devices of other kinds are not opened here.
    """
    rows = [backend_of(device) for device in devices]
    if all(row is not None and row.of_the_processor for row in rows):
        check_devices(parameters_of(name), devices)
