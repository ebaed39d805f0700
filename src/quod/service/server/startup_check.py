"""The checks of `quod serve`: keys and devices, with `--check` also the cost of a first proof."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from quod.device.backends import backend_of
from quod.device.discovery import resolve_device
from quod.device.protocol import in_host_memory
from quod.errors import QuodError
from quod.formats.source import existing_size
from quod.frozen import frozen
from quod.service.keys import KeyRepository, ResidentKeys
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.needs import Tier
from quod.service.keys.repository import ListedKey
from quod.service.server.config import Config, Filecoin
from quod.service.server.listeners import check_listen
from quod.service.server.pools import served_models, worker_settings
from quod.service.worker.opening import opener
from quod.service.worker.settings import sharing

if TYPE_CHECKING:
    from quod.filecoin.parameters.identifiers import ParameterSet

_log = logging.getLogger(__name__)


@frozen
class KeyCost:
    """The cost of a key's first proof on a device.

    read_bytes: bytes read from disk.
    host_bytes, device_bytes: upper bounds of its memory; None for a circuit of Filecoin that is not
        warm, as its memory is computed when it is opened. A language model is a key, too.
    load_seconds: measured for warm keys and models, None for others.
    problem: the reason why it cannot be used, or empty.
    origin: of a circuit's file: "network", "test key", or "not checked" if only its digest, which
        takes minutes, could show its origin; empty for other keys.
    """

    key: str
    names: tuple[str, ...]
    device: str
    read_bytes: int
    host_bytes: int | None
    device_bytes: int | None
    load_seconds: float | None
    problem: str
    origin: str = ""


def risks(config: Config) -> list[str]:
    """Return warnings about protections that a configuration turns off, one sentence each."""
    warnings = []
    listen = config.listen
    if listen.open and listen.insecure_no_auth:
        warnings.append(
            f"{', '.join(listen.open)}: without authentication, anyone who can connect "
            "has the rights of an operator"
        )
    if listen.plaintext:
        warnings.append(
            f"{', '.join(listen.plaintext)}: tokens and witnesses are sent without TLS; "
            "anyone on the network path can read them"
        )
    if config.workers.ray is not None:
        warnings.append(
            "Ray has no authentication: anyone who reaches the ports of the cluster "
            "can run code on its machines as Ray's user; keep the ports on a private "
            "network"
        )
    return warnings


def check(config: Config) -> Iterator[KeyCost]:
    """Check each key on each device: load warm keys, estimate the others.

    Devices of a cluster are not checked. Raises the errors of the listening addresses, the
    repository and the devices, and NotFoundError if a warm key is missing.
    """
    check_listen(config)
    if config.filecoin is not None:
        yield from _circuit_costs(config, config.filecoin)
        return
    if config.models:
        yield from _model_costs(config)
        return
    repository = KeyRepository(config.keys_folder)
    warm_identities = {repository.resolve(name) for name in config.workers.warm}
    listed_keys = repository.listing()
    worker_list = sharing(worker_settings(config)) if config.workers.ray is None else []
    for device, settings in {worker.device: worker for worker in worker_list}.items():
        with opener(repository, settings)() as keys:
            for key in listed_keys:
                yield _cost(repository, keys, device, key, key.identity in warm_identities, config)


def check_start(config: Config) -> None:
    """Raise for configurations with which no worker could ever become ready.

    Takes milliseconds: keys are not opened, and neither are GPUs. Raises DeviceError for the name
    of no device, NotFoundError for a warm key that does not exist, and for Filecoin the errors of
    `check_served`.
    """
    for device in config.workers.devices:
        if backend_of(device) is None:
            resolve_device(device)
    if config.filecoin is not None:
        from quod.service.filecoin.parameter_folder import check_served

        served = check_served(
            config.filecoin.params, config.workers.warm, config.workers.devices,
            allow_insecure=config.filecoin.insecure_test_key,
        )  # fmt: skip
        _log.info(
            "circuits with parameters",
            extra={"folder": str(config.filecoin.params), "circuits": served},
        )
    elif config.workers.warm:
        repository = KeyRepository(config.keys_folder)
        for name in config.workers.warm:
            repository.resolve(name)


def _circuit_costs(config: Config, section: Filecoin) -> Iterator[KeyCost]:
    """Check the parameters of Filecoin's circuits in a folder; open those of warm circuits.

    Raises InputError if the folder has no parameters, which would leave nothing to prove with.
    """
    from quod.filecoin.parameters.files import check_parameters
    from quod.service.filecoin.circuit_ids import CIRCUITS, parameters_of
    from quod.service.filecoin.parameter_folder import parameter_paths
    from quod.service.filecoin.provers import Provers, host_peak_bytes, memory_bytes

    folder, allow_insecure = section.params, section.insecure_test_key
    warm_sets = {parameters_of(name) for name in config.workers.warm}
    paths = parameter_paths(folder)
    for device in dict.fromkeys(config.workers.devices):
        provers = Provers(device, folder, allow_insecure=allow_insecure)
        on_host = in_host_memory(provers.device)
        for name, parameters in CIRCUITS.items():
            is_warm = parameters in warm_sets
            if name not in paths and not is_warm:
                continue
            path = folder / parameters.file_name("params")
            seconds, problem, size = None, "", existing_size(path) or 0
            host_bytes = device_bytes = None
            try:
                parameters.check_device(provers.device)
                check_parameters(parameters, path, allow_insecure=allow_insecure)
                if is_warm:
                    begin = perf_counter()
                    prover = provers.open(parameters)
                    seconds = perf_counter() - begin
                    host_bytes = host_peak_bytes(prover, size)
                    device_bytes = 0 if on_host else memory_bytes(prover)
                    provers.evict(parameters)
            except QuodError as error:
                problem = str(error)
            yield KeyCost(
                name, (), device, size, host_bytes, device_bytes, seconds, problem,
                _origin_text(parameters, path),
            )  # fmt: skip
        provers.close()


def _model_costs(config: Config) -> Iterator[KeyCost]:
    """Open each language model on each device, as a worker does."""
    for model in served_models(config):
        for name in dict.fromkeys(config.workers.devices):
            seconds, problem, nbytes = None, "", None
            on_host = in_host_memory(resolve_device(name))
            try:
                begin = perf_counter()
                nbytes = model.open(name).memory_bytes
                seconds = perf_counter() - begin
            except QuodError as error:
                problem = str(error)
            yield KeyCost(
                model.name, (), name, existing_size(model.path) or 0, nbytes if on_host else 0,
                0 if on_host else nbytes, seconds, problem,
            )  # fmt: skip


def _origin_text(parameters: ParameterSet, path: Path) -> str:
    """Return the origin of a file as far as it is known without reading all of the file."""
    from quod.filecoin.parameters.files import cheap_origin

    try:
        origin = cheap_origin(parameters, path)
    except QuodError:
        return ""
    return "not checked" if origin is None else origin.value


def _cost(
    repository: KeyRepository, keys: ResidentKeys, device: str, key: ListedKey, load: bool,
    config: Config,
) -> KeyCost:  # fmt: skip
    read_bytes = host_bytes = device_bytes = 0
    seconds, problem = None, key.problem
    if key.record is not None:
        read_bytes = key.record.files["circuit.zkey"].bytes
    try:
        if not problem:
            budget = keys.status().budgets[Tier.DEVICE]
            loader = Groth16Loader(
                repository, keys.device, budget, config.workers.lanes, config.workers.together
            )
            needs = loader.needs(key.identity)
            host_bytes, device_bytes = needs.bytes(Tier.HOST), needs.bytes(Tier.DEVICE)
            if load:
                begin = perf_counter()
                keys.preload(key.identity)
                seconds = perf_counter() - begin
                keys.evict(key.identity)
    except QuodError as error:
        problem = str(error)
    return KeyCost(
        key.identity, key.names, device, read_bytes, host_bytes, device_bytes, seconds, problem
    )
