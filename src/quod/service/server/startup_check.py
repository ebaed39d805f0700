"""The checks of `quod serve --check`: keys, devices, and the cost of a first proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from quod.device.protocol import in_host_memory
from quod.errors import InputError, QuodError
from quod.formats.source import existing_size
from quod.frozen import frozen
from quod.service.keys import KeyRepository, ResidentKeys
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.needs import Tier
from quod.service.keys.repository import ListedKey
from quod.service.server.config import Config
from quod.service.server.listeners import check_listen
from quod.service.server.pools import worker_settings
from quod.service.worker.opening import opener
from quod.service.worker.settings import sharing


@frozen
class KeyCost:
    """The cost of a key's first proof on a device.

    read_bytes: bytes read from disk.
    host_bytes, device_bytes: upper bounds of its memory; for a circuit of Filecoin that is not
        warm, the size of its file, as its memory is computed when it is opened.
    load_seconds: measured for warm keys, None for others.
    problem: the reason why it cannot be used, or empty.
    """

    key: str
    names: tuple[str, ...]
    device: str
    read_bytes: int
    host_bytes: int
    device_bytes: int
    load_seconds: float | None
    problem: str


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
        yield from _circuit_costs(config, config.filecoin.params)
        return
    repository = KeyRepository(config.keys_folder)
    warm_identities = {repository.resolve(name) for name in config.workers.warm}
    listed_keys = repository.listing()
    worker_list = sharing(worker_settings(config)) if config.workers.ray is None else []
    for device, settings in {worker.device: worker for worker in worker_list}.items():
        with opener(repository, settings)() as keys:
            for key in listed_keys:
                yield _cost(repository, keys, device, key, key.identity in warm_identities, config)


def _circuit_costs(config: Config, folder: Path) -> Iterator[KeyCost]:
    """Check the parameters of Filecoin's circuits in a folder; open those of warm circuits.

    Raises InputError if the folder has no parameters, which would leave nothing to prove with.
    """
    from quod.filecoin.parameters.files import check_public_count
    from quod.service.filecoin.circuit_ids import CIRCUITS, parameters_of
    from quod.service.filecoin.provers import Provers, memory_bytes

    warm_sets = [parameters_of(name) for name in config.workers.warm]
    paths = [folder / parameters.file_name("params") for parameters in CIRCUITS.values()]
    if not warm_sets and all(existing_size(path) is None for path in paths):
        raise InputError(
            "has no parameters of Filecoin's circuits; download them as lotus does, or name their "
            "folder", path=str(folder),
        )  # fmt: skip
    for device in dict.fromkeys(config.workers.devices):
        provers = Provers(device, folder)
        for name, parameters in CIRCUITS.items():
            path = folder / parameters.file_name("params")
            is_warm = parameters in warm_sets
            size = existing_size(path)
            if size is None and not is_warm:
                continue
            seconds, problem, size = None, "", size or 0
            nbytes = size
            try:
                parameters.check_device(provers.device)
                if is_warm:
                    begin = perf_counter()
                    prover = provers.open(parameters)
                    seconds = perf_counter() - begin
                    nbytes = memory_bytes(prover, size)
                else:
                    check_public_count(parameters, path)
            except QuodError as error:
                problem = str(error)
            on_host = in_host_memory(provers.device)
            host_bytes, device_bytes = nbytes * on_host, nbytes * (not on_host)
            yield KeyCost(name, (), device, size, host_bytes, device_bytes, seconds, problem)
        provers.close()


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
