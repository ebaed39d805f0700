"""INSECURE parameters for tests and development networks, under upstream's file names."""

from __future__ import annotations

import json
from pathlib import Path

from quod.device.discovery import DeviceChoice
from quod.device.runtime.timeline import Timeline, or_null
from quod.field.array import check_seed
from quod.filecoin.parameters.files import AnyPath, default_folder, device_circuit
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.formats.bellman import bellman_key_content, bellman_parameters_content
from quod.formats.output import Content, write_all_atomically
from quod.groth16.device_key.bases import make_points
from quod.groth16.device_key.bellman import parameters_content, verifying_points
from quod.groth16.device_key.key import DeviceKey, memory_for
from quod.groth16.encodings.bellman_key import points_of
from quod.groth16.keys import ProvingKey
from quod.groth16.setup import make_key
from quod.r1cs.circuit import Circuit
from quod.validation import file_path, flag, instance


def make_parameters(
    parameters: ParameterSet, folder: AnyPath | None, seed: int, *, device: DeviceChoice = "cpu",
    replace: bool = False, timeline: Timeline | None = None,
) -> list[Path]:  # fmt: skip
    """Write INSECURE parameters of a set: the .params, .vk and .meta files; return their paths.

    folder: an existing folder; None stands for `default_folder`.
    seed: the secret of the key, at least 0: anyone who knows it can forge proofs. Equal seeds make
        equal files.
    replace: whether to replace existing files, which may be the network's.
    On CUDA the key is made in the GPU's memory, and written from there.
    The verifying key's gamma marks a test key. `read_verifying_key` refuses test keys unless
    `allow_insecure`; a prover accepts them. Raises the error of `ParameterSet.check_device`, and
    OutputError.
    """
    instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
    on_device = parameters.check_device(device)
    check_seed(seed)
    replace, timeline = flag("replace", replace), or_null(timeline)
    target = default_folder() if folder is None else Path(file_path(folder))
    params, vk, meta = paths = [
        target / parameters.file_name(suffix) for suffix in ("params", "vk", "meta")
    ]
    with timeline.stage("circuit"):
        circuit = parameters.circuit()
    contents: tuple[Content, Content]
    if not parameters.uses_device_key(on_device):
        key = make_key(circuit, seed, device=on_device, timeline=timeline, monomial=True)
        host_points = points_of(key)
        contents = bellman_parameters_content(host_points), bellman_key_content(host_points)
    else:
        large = device_circuit(parameters, circuit)
        points = make_points(memory_for(large, on_device).device, large, seed, timeline)
        contents = (
            parameters_content(on_device, large, points),
            bellman_key_content(verifying_points(points)),
        )
    metadata = json.dumps({"sector_size": parameters.sector.size}, separators=(",", ":"))
    with timeline.stage("write parameters"):
        write_all_atomically(
            {
                params: contents[0],
                vk: contents[1],
                meta: metadata.encode(),
            },
            exclusive=[] if replace else paths,
        )
    return paths


def make_proving_key(
    parameters: ParameterSet, circuit: Circuit, seed: int, device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
) -> ProvingKey | DeviceKey:  # fmt: skip
    """Return the INSECURE key that `make_parameters` writes, without files.

    circuit: that of the set.
    """
    target = parameters.check_device(device)
    if parameters.uses_device_key(target):
        return DeviceKey.make(device_circuit(parameters, circuit), target, seed, timeline)
    key = make_key(circuit, seed, device=target, timeline=timeline, monomial=True)
    return ProvingKey(key, target, timeline, allow_insecure=True)
