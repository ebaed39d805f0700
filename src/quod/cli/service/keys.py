"""quod keys: the key repository of the proving service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_json, show_table, warn
from quod.cli.parameters import Argument, AsJson, InsecureTestKey, Option, Quiet
from quod.cli.service.jobs import DEFAULT_SERVER, Certificate, Server, Timeout, TokenFile, connect

if TYPE_CHECKING:
    from quod.service.keys import KeyRecord


_FOLDER = Argument("FOLDER", "Repository of keys.")
_KEY = Argument("KEY", "Name, NAME:TAG, or identity.")
Folder = Annotated[Path, _FOLDER]
Key = Annotated[str, _KEY]
Worker = Annotated[str, Option(metavar="WORKER", help="Worker's name. Default: all workers.")]


def add(
    folder: Folder,
    zkey: Annotated[Path, Argument("ZKEY", "Proving key.")],
    name: Annotated[
        list[str] | None, Option(metavar="NAME[:TAG]", help="Name for the key; may be repeated.")
    ] = None,
    wasm: Annotated[
        Path | None, Option(metavar="FILE", help="Witness calculator of circom.")
    ] = None,
    verification_key: Annotated[
        Path | None, Option(metavar="FILE", help="Refuse ZKEY unless FILE is its verifying key.")
    ] = None,
    move: Annotated[bool, Option("--move", help="Move names from other keys to this one.")] = False,
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Register a key under names; create the folder and print the key's identity."""
    from quod.service.keys import KeyRepository

    repository = KeyRepository(folder, create=True)
    record = repository.add(
        zkey, verification_key=verification_key, wasm=wasm, names=name or [], move=move,
        allow_insecure=insecure_test_key,
    )  # fmt: skip
    if record.insecure:
        warn(f"{zkey}: anyone can forge proofs for this key: {record.insecure}")
    show(record.identity)
    note(f"Registered {zkey} in {folder}.", quiet=quiet)


def list_keys(folder: Folder, as_json: AsJson = False) -> None:
    """List the keys and whether each is sound."""
    from quod.service.keys import KeyRepository

    records = KeyRepository(folder).listing()
    if as_json:
        show_json(
            [
                {"identity": key.identity, "names": list(key.names), "problem": key.problem}
                | ({} if key.record is None else _described(key.record))
                for key in records
            ]
        )
        return
    rows = []
    for key in records:
        record = key.record
        if record is None:
            warn(key.problem)
            cells = ("", "", "", "damaged")
        else:
            size = sum(file.bytes for file in record.files.values())
            cells = (record.curve, f"{record.constraints:,}", f"{size:,}", "sound")
        rows.append((key.identity, ", ".join(key.names), *cells))
    columns = ("identity", "names", "curve", "constraints", "bytes", "state")
    show_table(columns, rows, right=("constraints", "bytes"))


def show_key(folder: Folder, key: Key, as_json: AsJson = False) -> None:
    """Describe a key."""
    from quod.cli.inspect import show_description
    from quod.service.keys import KeyRepository

    repository = KeyRepository(folder)
    record = repository.record(key)
    names = [name for name, target in repository.names().items() if target == record.identity]
    description: dict[str, object] = {
        "identity": record.identity,
        "names": names,
        **_described(record),
    }
    if as_json:
        show_json(description)
    else:
        show_description(description)


def check(
    folder: Folder,
    key: Annotated[str | None, Argument("[KEY]", "Key to check. Default: all.")] = None,
    deep: Annotated[bool, Option("--deep", help="Recompute the SHA-256 of every file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Check keys against their registration. The exit code is 0 only if all are sound."""
    from quod.errors import QuodError
    from quod.service.errors import KeyChangedError
    from quod.service.keys import KeyRepository

    repository = KeyRepository(folder)
    identities = [row.identity for row in repository.listing()] if key is None else [key]
    problems = repository.problems() if key is None else []
    failed = 0
    if not identities:
        note(f"{folder}: no keys", quiet=quiet)
    for identity in identities:
        try:
            repository.check(identity, deep=deep)
            note(f"{identity}: sound", quiet=quiet)
        except QuodError as error:
            if key is not None:
                raise
            warn(str(error))
            failed += 1
    for problem in problems:
        warn(problem)
    if failed or problems:
        raise KeyChangedError(
            f"{failed} of {len(identities)} keys differ from their registration, and there "
            f"are {len(problems)} other problems; see the warnings",
            path=str(folder),
        )


def remove(folder: Folder, key: Key, quiet: Quiet = False) -> None:
    """Remove a name, or a key with all its names if KEY is an identity or its last name."""
    from quod.service.keys import KeyRepository

    removed_key = KeyRepository(folder).remove(key)
    names = ", ".join(removed_key.names)
    if removed_key.key:
        note(
            f"Removed the key {removed_key.identity}{f' ({names})' if names else ''}.", quiet=quiet
        )
    else:
        note(
            f"Removed the name {names}; the key {removed_key.identity} has other names.",
            quiet=quiet,
        )


def served(
    as_json: AsJson = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:
    """List the keys of a server that you may use."""
    from quod.frozen import fields_of

    with connect(server, token_file, certificate) as client:
        remote_keys = client.keys()
    if as_json:
        show_json([fields_of(key) for key in remote_keys])
        return
    columns = ("identity", "names", "curve", "constraints", "bytes", "state")
    rows = [
        (key.identity, ", ".join(key.names), key.curve, f"{key.constraints:,}", f"{key.bytes:,}",
         key.problem or "sound")
        for key in remote_keys
    ]  # fmt: skip
    show_table(columns, rows, right=("constraints", "bytes"))
    if not rows:
        note(
            "The server has no registered keys that you may use. `quod status` lists the open "
            "circuits of a server of Filecoin proofs, as does GetStatus of cuzk's protocol."
        )


def preload(
    key: Key,
    worker: Worker = "",
    timeout: Timeout = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:
    """Have the workers of a server load a key. Operators only."""
    with connect(server, token_file, certificate) as client:
        client.preload(key, worker, timeout)


def evict(
    key: Key, worker: Worker = "", server: Server = DEFAULT_SERVER, token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:  # fmt: skip
    """Have the workers of a server free a key's memory. Operators only."""
    with connect(server, token_file, certificate) as client:
        client.evict(key, worker)


def resume(
    key: Key, server: Server = DEFAULT_SERVER, token_file: TokenFile = None,
    certificate: Certificate = None,
) -> None:  # fmt: skip
    """Have a server resume the jobs of a suspended key. Operators only."""
    with connect(server, token_file, certificate) as client:
        client.resume_key(key)


def _described(record: KeyRecord) -> dict[str, object]:
    return {
        "protocol": record.protocol,
        "curve": record.curve,
        "constraints": record.constraints,
        "variables": record.variables,
        "public": record.public,
        "domain": record.domain,
        "insecure": record.insecure or False,
        "registered": record.registered,
        "files": {name: file.bytes for name, file in record.files.items()},
    }
