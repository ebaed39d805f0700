"""Files of parameters: their folder, and keys that are the network's or marked as test keys."""

from __future__ import annotations

import hashlib
import os
from enum import Enum
from pathlib import Path

from quod.device.discovery import DeviceChoice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.filecoin.parameters.digests import DIGEST_BYTES, network_digests, network_set
from quod.filecoin.parameters.identifiers import ParameterSet
from quod.formats.bellman import BellmanVerifyingKey
from quod.formats.source import FileView, map_file, opened_file
from quod.groth16.encodings.bellman import read_verifying_key as read_bellman_key
from quod.groth16.encodings.bellman import weakness_in
from quod.groth16.keys import ProvingKey
from quod.groth16.verifier import VerifyingKey
from quod.r1cs.circuit import Circuit
from quod.validation import file_path, flag, instance

FOLDER_VARIABLE = "FIL_PROOFS_PARAMETER_CACHE"
DEFAULT_FOLDER = "/var/tmp/filecoin-proof-parameters"

# Behind alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1 and delta_g2.
_COUNT_OFFSET = 864

AnyPath = str | os.PathLike[str]


def default_folder() -> Path:
    """Return the folder of FIL_PROOFS_PARAMETER_CACHE, by default that of rust-fil-proofs."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def file_digest(path: AnyPath) -> str:
    """Return the digest of parameters.json: the first 16 bytes of BLAKE2b-512, in hex."""
    return digest_of(map_file(path))


def digest_of(data: memoryview) -> str:
    """Return the digest of a file's bytes."""
    return hashlib.blake2b(data).hexdigest()[: 2 * DIGEST_BYTES]


def open_proving_key(
    parameters: ParameterSet, circuit: Circuit, path: AnyPath | None = None,
    device: DeviceChoice = "cpu", timeline: Timeline | None = None, *, checked: bool = True,
) -> ProvingKey:  # fmt: skip
    """Open the proving key of a set, with its traced circuit.

    path: a file, or a folder with upstream's file names; default: `default_folder`.
    checked: whether all points of a test key are checked. Those of the network's file, which its
        digest identifies, are not checked again.
    A test key proves, and is `insecure`. Raises InputError for a file that is neither, and the
    errors of `ProvingKey.from_bellman`.
    """
    timeline = or_null(timeline)
    file = parameter_file(parameters, path, ("params",))
    with timeline.stage("digest of parameters"):
        checked = not _is_of_network(parameters, file) and flag("checked", checked)
    return ProvingKey.from_bellman(
        file, circuit, device, timeline, checked=checked, allow_insecure=True
    )


def read_verifying_key(
    parameters: ParameterSet, path: AnyPath | None = None, device: DeviceChoice = "cpu", *,
    allow_insecure: bool = False, trusted: bool = False,
) -> VerifyingKey:  # fmt: skip
    """Read the verifying key of a set, from a .vk file or from parameters.

    path: a file, or a folder with upstream's file names; default: `default_folder`.
    trusted: whether to accept a key of another network, which nothing identifies.
    Raises InputError for a file that is neither the network's nor a test key, unless `trusted`,
    MismatchError for a file of another set and for another number of public inputs,
    InsecureKeyError for a test key unless `allow_insecure`.
    """
    file = parameter_file(parameters, path, ("vk", "params"))
    if flag("trusted", trusted):
        origin_of(parameters, file)
    else:
        _is_of_network(parameters, file)
    key = read_bellman_key(file, device=device, allow_insecure=allow_insecure)
    if key.public != parameters.public:
        raise MismatchError(
            f"has {key.public} public inputs; {parameters.name} needs {parameters.public}",
            path=str(file),
        )
    return key


def parameter_file(
    parameters: ParameterSet, path: AnyPath | None, suffixes: tuple[str, ...]
) -> Path:
    """Return a set's file: `path`, or the first in this folder with one of the suffixes.

    Raises InputError if there is no such file.
    """
    instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
    folder = default_folder() if path is None else Path(file_path(path))
    if not folder.is_dir() and path is not None:
        return folder
    names = [f"{parameters.file_name('params').removesuffix('params')}{end}" for end in suffixes]
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(
        f"lacks the parameters of {parameters.name}: download them as lotus does, or make test "
        f"parameters with quod filecoin params; set {FOLDER_VARIABLE} to use another folder",
        path=str(folder / names[0]),
    )


def check_public_count(parameters: ParameterSet, file: Path) -> None:
    """Raise unless a file has as many public inputs as its set: a check of a few bytes.

    Raises InputError for a file that is too short, MismatchError for another count.
    """
    with opened_file(file) as (opened, status):
        count = bytes(
            FileView(str(file), opened, status.st_size)[_COUNT_OFFSET : _COUNT_OFFSET + 4]
        )
    if len(count) < 4:
        raise InputError("is cut off before its points", path=str(file), offset=status.st_size)
    public = int.from_bytes(count, "big") - 1
    if public != parameters.public:
        raise MismatchError(
            f"has {public} public inputs; {parameters.name} needs {parameters.public}",
            path=str(file),
        )


class Origin(Enum):
    """The origin of a parameter file: the network's ceremony, `make_parameters`, or neither."""

    NETWORK = "network"
    TEST = "test key"
    OTHER = "unknown"


def origin_of(parameters: ParameterSet, file: Path, digest: str | None = None) -> Origin:
    """Return the origin of a file of a set.

    digest: that of `file_digest`, if it has been computed.
    Raises MismatchError for the network's file of another set, InputError for a file without a key.
    """
    digest = file_digest(file) if digest is None else digest
    if digest in network_digests(parameters):
        return Origin.NETWORK
    if (other := network_set(digest)) is not None:
        raise MismatchError(f"is a file of {other}, not of {parameters.name}", path=str(file))
    return Origin.OTHER if weakness_in(BellmanVerifyingKey.open_start(file)) is None else Origin.TEST


def _is_of_network(parameters: ParameterSet, file: Path) -> bool:
    """Return true for a file of the network, false for a test key; raise InputError otherwise."""
    digest = file_digest(file)
    origin = origin_of(parameters, file, digest)
    if origin is Origin.OTHER:
        raise InputError(
            f"has the digest {digest}, which is not that of the network's {parameters.name}, and "
            "is not marked as a test key; get the file again from its source",
            path=str(file),
        )
    return origin is Origin.NETWORK
