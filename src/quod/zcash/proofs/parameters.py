"""Files of parameters: keys that are those of the ceremonies, or marked as test keys.

The files are those of bellman (`quod.formats.bellman`). A file of a ceremony is identified by its
published digest, so its points are not checked again.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from enum import Enum

from quod.device.discovery import DeviceChoice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.field.array import check_seed
from quod.formats.bellman import BellmanVerifyingKey, write_bellman_parameters
from quod.formats.source import Path, identity_of, map_file
from quod.groth16.encodings.bellman import read_verifying_key as read_bellman_key
from quod.groth16.encodings.bellman import weakness_in
from quod.groth16.encodings.bellman_key import points_of
from quod.groth16.keys import ProvingKey
from quod.groth16.setup import make_key
from quod.groth16.verifier import VerifyingKey
from quod.validation import file_path, flag, instance
from quod.zcash.proofs.kinds import KINDS, ProofKind


class Origin(Enum):
    """The origin of a file of parameters: the ceremony of its kind, a test key, or neither."""

    CEREMONY = "ceremony"
    TEST = "test key"
    OTHER = "unknown"


def origin_of(kind: ProofKind, path: Path) -> Origin:
    """Return the origin of a file.

    Raises MismatchError for the file of another ceremony, and InputError for a file without a key.
    """
    instance("the kind", kind, ProofKind, "take one of quod.zcash.proofs.kinds")
    return _origin_and_digest(kind, file_path(path))[0]


def is_test_key(kind: ProofKind, path: Path, *, allow_insecure: bool = False) -> bool:
    """Return whether a file is a test key; False for the ceremony's.

    Raises InputError for a file that is neither, MismatchError for the file of another ceremony,
    and InsecureKeyError for a test key unless `allow_insecure`.
    """
    instance("the kind", kind, ProofKind, "take one of quod.zcash.proofs.kinds")
    name = file_path(path)
    origin, digest = _origin_and_digest(kind, name)
    if origin is Origin.OTHER:
        raise InputError(
            f"is not {kind.file_name}: BLAKE2b-512 is {digest[:16]}..., and the ceremony published "
            f"{kind.file_digest[:16]}... for a file of {kind.file_bytes} bytes; get the file again "
            "from its source",
            path=name,
        )
    if origin is Origin.CEREMONY:
        return False
    if not allow_insecure:
        weakness = weakness_in(BellmanVerifyingKey.open_start(name))
        assert weakness is not None
        raise weakness.error(name)
    return True


def open_proving_key(
    kind: ProofKind, path: Path, device: DeviceChoice = "cpu", timeline: Timeline | None = None, *,
    checked: bool = True, allow_insecure: bool = False,
) -> ProvingKey:  # fmt: skip
    """Open the parameters of a kind of proof, with its circuit.

    checked: whether all points of a test key are checked; the digest identifies those of a
        ceremony.
    Raises InputError for a file that is neither the ceremony's nor a test key, MismatchError for a
    file of another kind, InsecureKeyError for a test key unless `allow_insecure`, and the errors of
    `ProvingKey.from_bellman`.
    """
    timeline, name = or_null(timeline), file_path(path)
    allow_insecure, checked = flag("allow_insecure", allow_insecure), flag("checked", checked)
    identity = identity_of(name)
    with timeline.stage("digest of parameters"):
        is_for_tests = is_test_key(kind, name, allow_insecure=allow_insecure)
    with timeline.stage("circuit"):
        circuit = kind.circuit()
    key = ProvingKey.from_bellman(
        name, circuit, device, timeline, checked=checked and is_for_tests,
        allow_insecure=allow_insecure,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.callback(key.close)
        # The digest was that of this file.
        identity.check()
        stack.pop_all()
    return key


def read_verifying_key(
    kind: ProofKind, path: Path, device: DeviceChoice = "cpu", *, allow_insecure: bool = False
) -> VerifyingKey:
    """Read the verifying key of a kind of proof from its parameters.

    Raises the errors of `open_proving_key`.
    """
    name, allow_insecure = file_path(path), flag("allow_insecure", allow_insecure)
    identity = identity_of(name)
    is_test_key(kind, name, allow_insecure=allow_insecure)
    key = read_bellman_key(name, device=device, allow_insecure=allow_insecure)
    identity.check()
    if key.public != kind.public:
        raise MismatchError(
            f"has {key.public} public inputs; {kind.name} needs {kind.public}", path=name
        )
    return key


def make_test_parameters(
    kind: ProofKind, path: Path, seed: int, device: DeviceChoice = "cpu"
) -> None:
    """Write INSECURE parameters of a kind of proof, for tests: anyone with the seed can forge.

    Equal seeds make equal files. The key's gamma marks a test key.
    """
    instance("the kind", kind, ProofKind, "take one of quod.zcash.proofs.kinds")
    check_seed(seed)
    key = make_key(kind.circuit(), seed, device=device, monomial=True)
    write_bellman_parameters(path, points_of(key))


def _origin_and_digest(kind: ProofKind, name: str) -> tuple[Origin, str]:
    digest = hashlib.blake2b(map_file(name)).hexdigest()
    if digest == kind.file_digest:
        return Origin.CEREMONY, digest
    for other in KINDS.values():
        if digest == other.file_digest:
            raise MismatchError(f"is {other.file_name}, not {kind.file_name}", path=name)
    is_weak = weakness_in(BellmanVerifyingKey.open_start(name)) is not None
    return Origin.TEST if is_weak else Origin.OTHER, digest
