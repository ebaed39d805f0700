"""Registration of a key: copies and validates its files in a folder not yet visible to readers."""

from __future__ import annotations

import hashlib
import os
import time
from functools import partial

from quod.errors import InputError, MismatchError
from quod.formats import Zkey
from quod.formats.iden3 import Iden3File
from quod.formats.snarkjs_json import read_verification_key
from quod.formats.source import Path, map_file, opened_file
from quod.formats.zkey.file import KIND, VERSION
from quod.groth16 import VerifyingKey
from quod.groth16.soundness import weakness_of
from quod.service.keys.folder import Folder, as_output_error, read_chunks, write_all
from quod.service.keys.record import RECORD, VERIFICATION_KEY, WASM, ZKEY, FileRecord, KeyRecord
from quod.validation import file_path


def fill(
    folder: Folder,
    zkey: Path,
    verification_key: Path | None,
    wasm: Path | None,
    allow_insecure: bool,
) -> KeyRecord:
    """Copy and validate the files of a key, write its record, and sync everything to disk.

    The verifying key is derived from the zkey; a given one must equal it. A witness calculator must
    belong to the circuit, and is compiled here. Raises InputError and InsecureKeyError as
    `VerifyingKey.from_zkey` does, MismatchError, and the errors of `WitnessCalculator`.
    """
    files = {ZKEY: _copy(folder, zkey)}
    # The copy cannot change; errors name the caller's file.
    data = map_file(folder.file_path(ZKEY))
    key = Zkey.of(Iden3File.parse(data, file_path(zkey), KIND, VERSION))
    key.check_points()
    verifying_key = VerifyingKey.from_zkey(key, allow_insecure=allow_insecure)
    if verification_key is not None:
        _check_same(verifying_key, verification_key, zkey)
    files[VERIFICATION_KEY] = _write(folder, VERIFICATION_KEY, verifying_key.to_json().encode())
    if wasm is not None:
        from quod.witness.calculator import WitnessCalculator, read_wasm

        code = read_wasm(wasm)
        # Compile it now, so that the first witness does not wait for it.
        WitnessCalculator(code, name=file_path(wasm), curve=key.curve, variables=key.variables)
        files[WASM] = _write(folder, WASM, code)
    weakness = weakness_of(key)
    record = KeyRecord(
        identity=files[ZKEY].sha256,
        protocol="groth16",
        registered=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        curve=key.curve,
        variables=key.variables,
        public=key.public,
        constraints=key.constraints,
        domain=key.domain_size,
        entries=len(key.coefficients),
        insecure="" if weakness is None else weakness.reason,
        files=files,
    )
    folder.write(RECORD, record.to_toml().encode())
    folder.sync()
    return record


def digest_of(descriptor: int) -> str:
    """Return the SHA-256 of a file, from its current position on, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in read_chunks(descriptor):
        digest.update(chunk)
    return digest.hexdigest()


def _copy(folder: Folder, source: Path) -> FileRecord:
    digest = hashlib.sha256()
    writing = partial(as_output_error, folder.file_path(ZKEY))
    # `opened_file` takes any OSError for one of reading, so errors of writing are converted first.
    with folder.new_file(ZKEY) as target, opened_file(source) as (file, status_before):
        for chunk in read_chunks(file.fileno()):
            digest.update(chunk)
            with writing():
                write_all(target, chunk)
        status_after = os.fstat(file.fileno())
        if (status_before.st_size, status_before.st_mtime_ns) != (
            status_after.st_size,
            status_after.st_mtime_ns,
        ):
            raise InputError("changed while it was copied; add it again", path=source)
        with writing():
            os.fsync(target)
        return FileRecord.of(digest.hexdigest(), os.fstat(target))


def _write(folder: Folder, name: str, content: bytes) -> FileRecord:
    return FileRecord.of(hashlib.sha256(content).hexdigest(), folder.write(name, content))


def _check_same(key: VerifyingKey, path: Path, zkey: Path) -> None:
    supplied_key = read_verification_key(path)
    names = ("curve", "alpha_g1", "beta_g2", "gamma_g2", "delta_g2")
    if any(getattr(supplied_key, name) != getattr(key, name) for name in names) or (
        tuple(supplied_key.ic) != key.ic
    ):
        raise MismatchError(
            f"is not the verifying key of {file_path(zkey)}; omit it, and Quod writes "
            "the verifying key",
            path=path,
        )
