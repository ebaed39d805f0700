"""quod powersoftau: the first phase of a ceremony, in snarkjs's file format."""

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
from quod.cli.parameters import Argument, AsJson, Device, Force, Option, Quiet, Resume, WrongUsage
from quod.wording import counted

if TYPE_CHECKING:
    from quod.ceremony.powers.extended_file import Receipt

Source = Annotated[Path, Argument("PTAU", "Powers of tau.")]


def new(
    curve: Annotated[str, Argument("CURVE", "bn254, bls12_381 or bls12_377.")],
    power: Annotated[int, Argument("POWER", "Exponent of the largest domain, 2**POWER.")],
    out: Target,
    resume: Resume = True,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Start a ceremony: write powers of 1, and print the hash for the first contributor."""
    check_outputs([out], [], exclusive=[] if force else [out])
    from quod.formats.resumable import expect

    # Before the slow imports, so that an interruption of them can say that the work is resumable.
    expect(out)
    from quod.ceremony.powers.initial_powers import new_powers
    from quod.cli.display.progress import followed_timeline
    from quod.formats.curves import curve_named, curve_of_json_name

    # snarkjs's names, such as bn128, are accepted too.
    json_curve = curve_of_json_name(curve)
    with followed_timeline(quiet=quiet) as timeline:
        name = curve if json_curve is None else json_curve.name
        challenge = new_powers(
            curve_named(name).name, power, out, timeline=timeline, resume=resume,
            report=partial(note, quiet=quiet), replace=force,
        )  # fmt: skip
    show_or_note(out, f"First challenge: {in_hex_groups(challenge)}")
    note(
        f"Wrote {out}: 2**{power} powers of {name}; next: quod powersoftau contribute.", quiet=quiet
    )


def prepare(
    files: Annotated[list[Path], Argument("[phase2] PTAU OUT", "Powers of tau, and the new file.")],
    device: Device = "cpu",
    resume: Resume = True,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Add the Lagrange bases of all domains, for the second phase."""
    ptau, out = _two_files(files)
    check_outputs([out], [ptau], exclusive=[] if force else [out])
    from quod.formats.resumable import expect

    # As in `new`.
    expect(out)
    from quod.ceremony.powers.preparation import prepare as run
    from quod.cli.display.progress import followed_timeline

    with followed_timeline(quiet=quiet) as timeline:
        run(
            ptau, out, device=device, timeline=timeline, resume=resume,
            report=partial(note, quiet=quiet), replace=force,
        )  # fmt: skip
    note(f"Wrote {out}.", quiet=quiet)


def truncate(
    ptau: Source,
    powers: Annotated[
        list[int] | None,
        Option("--power", metavar="POWER", help="Write only this power; may be repeated."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a file for each smaller power next to PTAU: a_01.ptau for a.ptau ..."""
    from quod.ceremony.powers.truncation import check_smaller_power
    from quod.ceremony.powers.truncation import truncate as run
    from quod.cli.display.progress import followed_timeline
    from quod.formats import PowersOfTau

    file = PowersOfTau.open(ptau)
    chosen_powers = [check_smaller_power(file, power) for power in powers or range(1, file.power)]
    stem = ptau.name.removesuffix(".ptau")
    targets = {power: ptau.with_name(f"{stem}_{power:02d}.ptau") for power in chosen_powers}
    outputs = list(targets.values())
    check_outputs(outputs, [ptau], exclusive=[] if force else outputs)
    with followed_timeline(quiet=quiet) as timeline:
        for power, target in targets.items():
            run(ptau, target, power, timeline=timeline, replace=force)
    for target in targets.values():
        show(str(target))


def challenge(
    ptau: Source,
    out: Annotated[Path, Argument("OUT", "File for the challenge.")],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the challenge, for a contribution by another program."""
    with checked_timeline([ptau], out, force=force, quiet=quiet) as timeline:
        from quod.ceremony.powers.challenge_response import export_challenge

        digest = export_challenge(ptau, out, timeline=timeline, replace=force)
    show_or_note(out, f"Challenge: {in_hex_groups(digest)}")


def response(
    ptau: Source,
    file: Annotated[Path, Argument("RESPONSE", "Other program's response to the challenge.")],
    out: Target,
    name: Name = "",
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Add the response of another program to PTAU, as a contribution."""
    with checked_timeline([ptau, file], out, force=force, quiet=quiet) as timeline:
        from quod.ceremony.powers.challenge_response import import_response

        receipt = import_response(
            ptau, file, out, name=name, device=device, timeline=timeline, replace=force
        )
    _show_receipt(receipt, out, quiet)


def verify(
    ptau: Source,
    device: Device = "cpu",
    resume: Resume = True,
    log2_max_hashes: MaxHashes = 28,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check every contribution and every point. The exit code is 0 only if all are valid."""
    from quod.ceremony.powers.verification import verify as run
    from quod.cli.display.progress import followed_timeline

    with followed_timeline(quiet=quiet) as timeline:
        verified = run(
            ptau, device=device, timeline=timeline, resume=resume,
            report=partial(note, quiet=quiet), max_hashes=1 << log2_max_hashes,
        )  # fmt: skip
    if as_json:
        show_json(
            {
                "curve": verified.curve,
                "power": verified.power,
                "next_challenge": verified.next_challenge.hex(),
                "contributions": contributions_json(verified.contributions, "response_hash"),
            }
        )
        return
    show_contributions(verified.contributions)
    # A file that was not truncated still has the points of its last contribution.
    is_whole = verified.power == verified.ceremony_power
    if len(verified.contributions) > is_whole:
        which_text = "but the last one " if is_whole else ""
        show(
            f"All hashes {which_text}are unverified, because the file no longer has their "
            "points. Compare each with the hash that its contributor published."
        )
    count = counted(len(verified.contributions), "contribution")
    show(f"OK: 2**{verified.power} powers of {verified.curve}, {count}.")


def _two_files(files: list[Path]) -> tuple[Path, Path]:
    """Return the two files, without snarkjs's word "phase2"; raises WrongUsage otherwise."""
    paths = files[1:] if len(files) == 3 and str(files[0]) == "phase2" else files
    if len(paths) != 2:
        raise WrongUsage("expected two files: the powers of tau and the output")
    return paths[0], paths[1]


def _steps() -> tuple[Callable[..., Receipt], Callable[..., Receipt]]:
    from quod.ceremony.powers.update import add_beacon, contribute

    return contribute, add_beacon


def _show_receipt(receipt: Receipt, out: Path, quiet: bool) -> None:
    show_or_note(out, f"Contribution {receipt.number}: {in_hex_groups(receipt.response_hash)}")
    note(f"Wrote {out}. Next challenge: {in_hex_groups(receipt.next_challenge)}", quiet=quiet)


contribute, beacon = contributing_commands(_steps, _show_receipt)
