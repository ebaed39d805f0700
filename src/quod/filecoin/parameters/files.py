"""Files of parameters: their folder, and keys that are the network's or marked as test keys."""

from __future__ import annotations

import hashlib
import os
from enum import Enum
from pathlib import Path
from typing import Any

from quod.device.cache.cache import CompileCache, key_of
from quod.device.discovery import DeviceChoice
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.filecoin.parameters.digests import DIGEST_BYTES, network_digests, network_set
from quod.filecoin.parameters.identifiers import ParameterSet, ProofKind
from quod.formats.bellman import BellmanVerifyingKey, EncodedParameters
from quod.formats.source import (
    FileIdentity,
    FileView,
    existing_size,
    identity_of,
    map_file,
    opened_file,
)
from quod.frozen import fields_of
from quod.groth16.device_key.bellman import open_bellman
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.parts import PartsCircuit
from quod.groth16.encodings.bellman import read_verifying_key as read_bellman_key
from quod.groth16.encodings.bellman import weakness_in as bellman_weakness_in
from quod.groth16.keys import ProvingKey
from quod.groth16.soundness import TEST_KEY, Weakness
from quod.groth16.verifier import VerifyingKey
from quod.r1cs.circuit import Circuit
from quod.validation import file_path, flag, instance

FOLDER_VARIABLE = "FIL_PROOFS_PARAMETER_CACHE"
DEFAULT_FOLDER = "/var/tmp/filecoin-proof-parameters"

# Behind alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1 and delta_g2.
_COUNT_OFFSET = 864

# About twice the share in the circuits of 32 GiB, and more than in small ones.
_FULL_SHARE = 0.05
_DIGEST_CHUNK = 64 << 20

AnyPath = str | os.PathLike[str]

_TEST_PARAMETERS = Weakness(
    "it is a test key of quod filecoin params",
    "use the network's parameters (lotus fetch-params or curio fetch-params)",
)


def default_folder() -> Path:
    """Return the folder of FIL_PROOFS_PARAMETER_CACHE, by default that of rust-fil-proofs."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def file_digest(path: AnyPath) -> str:
    """Return the digest of parameters.json: the first 16 bytes of BLAKE2b-512, in hex."""
    return digest_of(map_file(path))


def remembered_digest(file: Path, identity: FileIdentity | None = None) -> str:
    """Return the digest of a file; that of an unchanged file is remembered in the user's cache.

    identity: that of the file, from before it is read. The cache is trusted anyway, as it has
    machine code.
    """
    identity = identity_of(file) if identity is None else identity
    cache = CompileCache()
    key = _digest_key(identity)
    remembered = cache.get(key)
    if remembered is not None:
        return remembered.decode()
    digest = file_digest(file)
    identity.check()
    cache.put(key, digest.encode())
    return digest


def _digest_key(identity: FileIdentity) -> str:
    return key_of("digest of parameters", *[str(value) for value in fields_of(identity).values()])


def digest_of(data: memoryview) -> str:
    """Return the digest of a file's bytes."""
    digest: Any
    try:
        # OpenSSL's code is up to 1.4 times as fast as Python's.
        digest = hashlib.new("blake2b512")
    except ValueError:
        digest = hashlib.blake2b()
    # Ctrl-C acts between two chunks.
    for start in range(0, len(data), _DIGEST_CHUNK):
        digest.update(data[start : start + _DIGEST_CHUNK])
    return str(digest.hexdigest())[: 2 * DIGEST_BYTES]


def open_proving_key(
    parameters: ParameterSet, circuit: Circuit, path: AnyPath | None = None,
    device: DeviceChoice = "cpu", timeline: Timeline | None = None, *, checked: bool = True,
) -> ProvingKey | DeviceKey:  # fmt: skip
    """Open the proving key of a set, with its traced circuit.

    path: a file, or a folder with upstream's file names; default: `default_folder`.
    checked: whether all points of a test key are checked. Those of the network's file, which its
        digest identifies, are not checked again.
    On CUDA the key is in the GPU's memory alone, except for WinningPoSt, and the file's digest is
    computed while the file is read. The digest of the network's file is remembered in the user's
    cache until the file changes.
    A test key proves, and is `insecure`. Raises InputError for a file that is neither the network's
    nor a test key, the errors of `ProvingKey.from_bellman`, and DeviceError for too little memory.
    """
    instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
    timeline, target = or_null(timeline), parameters.check_device(device)
    file = parameter_file(parameters, path, ("params",))
    identity = identity_of(file)
    key = _opened_key(parameters, circuit, file, identity, target, timeline, checked=checked)
    try:
        # The digest was that of this file.
        identity.check()
    except BaseException:
        key.close()
        raise
    return key


def _opened_key(
    parameters: ParameterSet, circuit: Circuit, file: Path, identity: FileIdentity,
    target: AnyDevice, timeline: Timeline, *, checked: bool,
) -> ProvingKey | DeviceKey:  # fmt: skip
    is_checked = flag("checked", checked)
    if not parameters.uses_device_key(target):
        with timeline.stage("digest of parameters"):
            digest = remembered_digest(file, identity)
            is_checked &= not _is_of_network(parameters, file, digest)
        return ProvingKey.from_bellman(
            file, circuit, target, timeline, checked=is_checked, allow_insecure=True
        )
    is_test_key = weakness_in(BellmanVerifyingKey.open_start(file)) is not None
    large = device_circuit(parameters, circuit)
    if is_test_key:
        return open_bellman(file, large, target, timeline, checked=is_checked)
    background = Background("quod-digest", 1)
    try:
        origin = background.begin(
            lambda: _is_of_network(parameters, file, remembered_digest(file, identity))
        )
        key = open_bellman(file, large, target, timeline, checked=False)
        try:
            with timeline.stage("digest of parameters"):
                origin.result()
        except BaseException:
            key.close()
            raise
        return key
    finally:
        background.close()


def device_circuit(parameters: ParameterSet, circuit: Circuit) -> PartsCircuit:
    """Return the circuit of a set for keys in a GPU's memory.

    Nearly all values of PoRep and of SnapDeals are bits of SHA-256, those of PoSt are elements.
    """
    is_binary = parameters.kind in (ProofKind.POREP, ProofKind.UPDATE)
    return PartsCircuit(circuit, monomial=True, full_share=_FULL_SHARE if is_binary else 1.0)


def read_verifying_key(
    parameters: ParameterSet, path: AnyPath | None = None, device: DeviceChoice = "cpu", *,
    allow_insecure: bool = False, trusted: bool = False,
) -> VerifyingKey:  # fmt: skip
    """Read the verifying key of a set, from a .vk file or from parameters.

    path: a file, or a folder with upstream's file names; default: `default_folder`.
    trusted: whether to accept a key of another network, which nothing identifies.
    Raises InputError for a file that is neither the network's nor a test key, unless `trusted`, and
    for a file that changes meanwhile. Raises MismatchError for the network's file of another set
    and for a wrong number of public inputs, and InsecureKeyError for a test key unless
    `allow_insecure`.
    """
    file = parameter_file(parameters, path, ("vk", "params"))
    identity = identity_of(file)
    if flag("trusted", trusted):
        origin_of(parameters, file)
    else:
        _is_of_network(parameters, file, file_digest(file))
    return read_identified_key(parameters, file, identity, device, allow_insecure=allow_insecure)


def read_identified_key(
    parameters: ParameterSet, file: Path, identity: FileIdentity, device: DeviceChoice = "cpu", *,
    allow_insecure: bool = False,
) -> VerifyingKey:  # fmt: skip
    """Read the verifying key of a set from a file whose origin the caller has checked.

    identity: that of the file, from before the check.
    Raises the errors of `read_verifying_key` except those of `origin_of`.
    """
    weakness = weakness_in(BellmanVerifyingKey.open_start(file))
    if weakness is not None and not flag("allow_insecure", allow_insecure):
        raise weakness.error(str(file))
    key = read_bellman_key(file, device=device, allow_insecure=allow_insecure)
    # The digest was that of this file.
    identity.check()
    if key.public != parameters.public:
        raise MismatchError(
            f"has {key.public} public inputs; {parameters.name} needs {parameters.public}",
            path=str(file),
        )
    return key


def weakness_in(key: BellmanVerifyingKey) -> Weakness | None:
    """Return the weakness of a key of a set, or None; see `quod.groth16.soundness`."""
    weakness = bellman_weakness_in(key)
    return _TEST_PARAMETERS if weakness == TEST_KEY else weakness


def parameter_file(
    parameters: ParameterSet, path: AnyPath | None, suffixes: tuple[str, ...]
) -> Path:
    """Return a set's file: `path`, or the first in this folder with one of the suffixes.

    Raises InputError if there is no such file.
    """
    instance("the parameters", parameters, ParameterSet, "give a kind and a sector")
    folder = default_folder() if path is None else Path(file_path(path))
    if path is not None and not os.path.isdir(folder):
        return folder
    names = [f"{parameters.file_name('params').removesuffix('params')}{end}" for end in suffixes]
    for name in names:
        if existing_size(folder / name) is not None:
            return folder / name
    raise InputError(
        f"has no parameters of {parameters.name} (no file {names[0]}): "
        f"{download_advice(parameters)}, or name another folder (--params, or {FOLDER_VARIABLE})",
        path=str(folder),
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


def download_advice(parameters: ParameterSet | None = None) -> str:
    """Return the advice to get the network's parameters, or to make test parameters."""
    size = "32GiB" if parameters is None else parameters.sector.name
    return (
        f"download them with lotus fetch-params {size} or curio fetch-params {size}, make test "
        "parameters with quod filecoin params"
    )


def check_parameters(parameters: ParameterSet, file: Path, *, allow_insecure: bool) -> None:
    """Check the start of a parameter file, the counts of its lists and its length.

    No other point is read. Raises InputError for a damaged file, MismatchError for another number
    of public inputs, and InsecureKeyError for a test key unless `allow_insecure`.
    """
    check_public_count(parameters, file)
    weakness = weakness_in(BellmanVerifyingKey.open_start(file))
    EncodedParameters.open(file)
    if weakness is not None and not allow_insecure:
        raise weakness.error(str(file))


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
    return (
        Origin.OTHER if weakness_in(BellmanVerifyingKey.open_start(file)) is None else Origin.TEST
    )


def cheap_origin(parameters: ParameterSet, file: Path) -> Origin | None:
    """Return the origin of a file without reading all of it, or None if that does not show it.

    A test key is marked, and the digest of a file that was opened before is in the user's cache.
    Raises the errors of `origin_of`.
    """
    if weakness_in(BellmanVerifyingKey.open_start(file)) is not None:
        return Origin.TEST
    digest = CompileCache().get(_digest_key(identity_of(file)))
    return None if digest is None else origin_of(parameters, file, digest.decode())


def _is_of_network(parameters: ParameterSet, file: Path, digest: str) -> bool:
    """Return true for a file of the network, false for a test key; raise InputError otherwise."""
    origin = origin_of(parameters, file, digest)
    if origin is Origin.OTHER:
        raise InputError(
            f"has the digest {digest}, which is not that of the network's {parameters.name}, and "
            "is not marked as a test key; get the file again from its source",
            path=str(file),
        )
    return origin is Origin.NETWORK
