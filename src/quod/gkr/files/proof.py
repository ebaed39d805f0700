"""Proofs as files: containers of the iden3 tools (`quod.formats.iden3`) of the kind `qgkp`.

Version 2 has two sections. The first has the circuit's digest in 32 bytes, the u64 number of
instances and five texts in ASCII, each a u32 length and its bytes: the protocol, the field of
challenges, the hash, the reduction and the commitment's parameters. The second has the bytes of the
proof. A verifier knows the content of the first section already and never takes it from the file;
the section only serves error messages about proofs of another circuit or key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from quod.errors import InputError, MismatchError
from quod.formats.iden3 import Buffer, Iden3File, iden3_writer
from quod.formats.output import write_atomically
from quod.formats.source import Bytes, Path, check_length, read_parsed
from quod.frozen import frozen
from quod.gkr.key import VerifyingKey
from quod.gkr.security import MAX_LOG_INSTANCES
from quod.gkr.statement import protocol
from quod.transcript.elements import describe
from quod.validation import shown, shown_kind, whole_number

KIND = "qgkp"
VERSION = 2

_DIGEST_BYTES = 32
# A proof with the commitment `raw` contains all inputs.
_MAX_BYTES = 4 << 30
_TEXTS = ("protocol", "field", "hash", "reduction", "commitment")


@frozen
class ProofFile:
    """A proof with its header: the circuit's digest, the number of instances, and `kind`.

    kind: the protocol, field, hash, reduction and commitment, as texts by name.
    """

    path: str
    circuit: bytes
    instances: int
    kind: dict[str, str]
    proof: bytes

    def check(self, key: VerifyingKey, instances: int) -> None:
        """Raise MismatchError for another circuit, number of instances, or kind of key."""
        instances = whole_number("the instances", instances, 1)
        if self.circuit != key.circuit:
            raise MismatchError("the proof and the key are for different circuits", path=self.path)
        for name, wanted in kind_of_proofs(key).items():
            if self.kind[name] != wanted:
                hint = "; prove again with this version of Quod" if name == _TEXTS[0] else ""
                raise MismatchError(
                    f"the proof's {name} is {shown(self.kind[name])}, and the key's "
                    f"{shown(wanted)}{hint}",
                    path=self.path,
                )
        if self.instances != instances:
            raise MismatchError(
                f"the proof is for {self.instances} instances, not {instances}",
                path=self.path,
            )


def kind_of_proofs(key: VerifyingKey) -> dict[str, str]:
    """Return the parameters of a key, by their names in files of proofs."""
    field, scheme = describe(key.field).decode(), key.commitment.parameters()
    texts = (protocol(key), field, key.hash.value, key.reduction.value, scheme)
    return dict(zip(_TEXTS, texts, strict=True))


def write_proof(path: Path, key: VerifyingKey, instances: int, proof: bytes) -> None:
    """Write a proof atomically. Raises `OutputError`."""
    write_atomically(path, proof_writer(key, instances, proof))


def proof_writer(key: VerifyingKey, instances: int, proof: bytes) -> Callable[[BinaryIO], None]:
    """Return a function that writes a proof to an open file."""
    value: object = proof
    count = whole_number("the instances", instances, 1, 1 << MAX_LOG_INSTANCES)
    if not isinstance(value, bytes):
        raise InputError(f"a proof must be bytes, not {shown_kind(value)}")
    texts = [text.encode() for text in kind_of_proofs(key).values()]
    stated = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    sections: list[tuple[int, list[Buffer]]] = [
        (1, [key.circuit, count.to_bytes(8, "little"), stated]),
        (2, [proof]),
    ]
    return iden3_writer(KIND, VERSION, sections)


def read_proof(path: Path) -> ProofFile:
    """Read a proof; raise InputError with section and offset for a malformed file."""
    return read_parsed(path, _header, parse_proof)


def parse_proof(data: memoryview, name: str) -> ProofFile:
    """Parse a proof in memory; see `read_proof`. `name` is the name of the file in errors."""
    file, digest, instances, kind = _header(data, name)
    proof = bytes(file.section(2, "proof").remainder("the proof"))
    return ProofFile(name, digest, instances, kind, proof)


def _header(data: Bytes, name: str) -> tuple[Iden3File, bytes, int, dict[str, str]]:
    """Return the container, the circuit's digest, the number of instances, and the proof's kind."""
    file = Iden3File.parse(data, name, KIND, VERSION)
    check_length(len(data), _MAX_BYTES, "a proof of a layered circuit", name)
    header = file.section(1, "header")
    digest = bytes(header.take(_DIGEST_BYTES, "the circuit's digest"))
    start = header.offset
    instances = header.u64("the number of instances")
    kind = {name: header.text(name) for name in _TEXTS}
    header.finish()
    if not 1 <= instances <= 1 << MAX_LOG_INSTANCES:
        header.fail(
            f"{instances} instances are none, or more than {1 << MAX_LOG_INSTANCES}; the file is "
            "damaged, copy it again",
            start,
        )
    return file, digest, instances, kind
