"""quod zkey: the second phase of a ceremony, and exports of proving keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.ceremony.contributing import (
    MaxHashes,
    Name,
    Target,
    checked_timeline,
    contributing_commands,
    contributions_json,
    in_hex_groups,
    show_contributions,
)
from quod.cli.display.terminal import note, show, show_json, show_or_note
from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    Argument,
    AsJson,
    Device,
    Force,
    InsecureTestKey,
    Quiet,
    Resume,
    WrongUsage,
)
from quod.wording import counted

if TYPE_CHECKING:
    from quod.groth16.phase2 import KeyReceipt

_Zkey = Annotated[Path, Argument("ZKEY", "Proving key.")]


def verify(
    files: Annotated[
        list[Path],
        Argument(
            "R1CS|INIT PTAU ZKEY",
            "The circuit, or its key before contributions; powers of tau; the key. The word "
            "r1cs or init may stand before them.",
        ),
    ],
    device: Device = "cpu",
    resume: Resume = True,
    log2_max_hashes: MaxHashes = 28,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check every contribution and point of a key. The exit code is 0 only if all are valid."""
    kinds = {"r1cs", "init"}
    kind = str(files[0]) if len(files) == 4 and str(files[0]) in kinds else ""
    if len(files) - bool(kind) != 3:
        raise WrongUsage("expected three files: R1CS or INIT, PTAU, ZKEY")
    circuit_or_key, ptau, zkey = files[-3:]
    from quod.cli.display.progress import followed_timeline
    from quod.formats.source import map_file
    from quod.groth16.phase2 import verify_from_init, verify_from_r1cs

    is_key = kind == "init" if kind else bytes(map_file(circuit_or_key)[:4]) == b"zkey"
    run = verify_from_init if is_key else verify_from_r1cs
    with followed_timeline(quiet=quiet) as timeline:
        verified = run(
            circuit_or_key, ptau, zkey, device=device, timeline=timeline, resume=resume,
            report=partial(note, quiet=quiet), max_hashes=1 << log2_max_hashes,
        )  # fmt: skip
    if as_json:
        show_json(
            {
                "curve": verified.curve,
                "circuit_hash": verified.circuit_hash.hex(),
                "contributions": contributions_json(verified.contributions, "contribution_hash"),
            }
        )
        return
    show(f"Circuit hash: {in_hex_groups(verified.circuit_hash)}")
    show_contributions(verified.contributions)
    show(f"OK: {counted(len(verified.contributions), 'contribution')}.")


def _steps() -> tuple[Callable[..., KeyReceipt], Callable[..., KeyReceipt]]:
    from quod.groth16.phase2 import add_beacon, contribute

    return contribute, add_beacon


def _show_receipt(receipt: KeyReceipt, out: Path, quiet: bool) -> None:
    show_or_note(out, f"Contribution {receipt.number}: {in_hex_groups(receipt.contribution_hash)}")
    note(f"Wrote {out}. Circuit hash: {in_hex_groups(receipt.circuit_hash)}", quiet=quiet)


contribute, beacon = contributing_commands(_steps, _show_receipt)


def import_bellman(
    zkey: _Zkey,
    parameters: Annotated[Path, Argument("PARAMS", "MPC parameters, contributed to.")],
    out: Target,
    name: Name = "",
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make a key from MPC parameters that were exported from ZKEY and contributed to."""
    with checked_timeline([zkey, parameters], out, force=force, quiet=quiet) as timeline:
        from quod.groth16.phase2 import import_bellman as run

        receipt = run(
            zkey, parameters, out, name=name, device=device, timeline=timeline, replace=force
        )
    _show_receipt(receipt, out, quiet)


def verificationkey(
    zkey: _Zkey,
    out: Annotated[Path, Argument("OUT", "File for the verifying key (JSON).")],
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Write the verifying key of a proving key, as snarkjs writes it."""
    check_outputs([out], [zkey])
    from quod.formats import write_atomically
    from quod.groth16 import VerifyingKey

    key = VerifyingKey.from_zkey(zkey, allow_insecure=insecure_test_key)
    write_atomically(out, key.to_json().encode())
    note(f"Wrote {out}.", quiet=quiet)


def bellman(
    zkey: _Zkey,
    out: Annotated[Path, Argument("OUT", "File for the MPC parameters.")],
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a key for bellman's tools to contribute to, as `snarkjs` does: MPC parameters."""
    check_outputs([out], [zkey], exclusive=[] if force else [out])
    from quod.cli.display.progress import followed_timeline
    from quod.groth16.phase2 import export_bellman

    with followed_timeline(quiet=quiet) as timeline:
        export_bellman(zkey, out, device=device, timeline=timeline, replace=force)
    note(f"Wrote {out}.", quiet=quiet)


def json(
    zkey: _Zkey,
    out: Annotated[Path, Argument("OUT", "File for the proving key (JSON).")],
    quiet: Quiet = False,
) -> None:
    """Write all of a proving key as JSON, as `snarkjs zkey export json` does."""
    check_outputs([out], [zkey])
    from quod.groth16.encodings.key_json import export_json

    export_json(zkey, out)
    note(f"Wrote {out}.", quiet=quiet)
