"""quod export-web: a static site that proves a circuit in the browser."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_timings, warn
from quod.cli.parameters import Argument, InsecureTestKey, Option, Quiet, Timings, WrongUsage
from quod.wording import alternatives

if TYPE_CHECKING:
    from quod.r1cs import Circuit
    from quod.zcash.proofs.kinds import ProofKind


def export_web(
    out: Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="Folder for the site.")],
    zkey: Annotated[
        Path | None,
        Argument(
            "[ZKEY]",
            "Proving key; or with --key a circuit in Python: FILE.py:FUNCTION.",
            check_readable=False,
        ),
    ] = None,
    zcash: Annotated[
        str | None,
        Option(
            "--zcash",
            metavar="KIND",
            help="Prove Sapling's spend or output, with its parameters as --key.",
        ),
    ] = None,
    masp: Annotated[
        str | None,
        Option(
            "--masp",
            metavar="KIND",
            help="Prove MASP's spend, output or convert, with its parameters as --key.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        Option(
            "--key",
            metavar="FILE",
            help="Proving key of a circuit in Python; parameters of --zcash or --masp.",
        ),
    ] = None,
    wasm: Annotated[
        Path | None,
        Option(
            "--wasm",
            metavar="FILE",
            help="Witness calculator of circom. Without it, a page of a ZKEY takes witnesses.",
        ),
    ] = None,
    bellman: Annotated[
        Path | None,
        Option(
            "--bellman",
            metavar="R1CS",
            help="ZKEY is parameters of bellman for this constraint system.",
        ),
    ] = None,
    sym: Annotated[
        Path | None,
        Option("--sym", metavar="FILE", help="Symbols of circom, which name the inputs."),
    ] = None,
    example: Annotated[
        Path | None,
        Option(
            "--input",
            metavar="FILE",
            help="Example input. It is published with the site.",
        ),
    ] = None,
    name: Annotated[
        str | None, Option("--name", metavar="TEXT", help="Name of the circuit on the page.")
    ] = None,
    limbs: Annotated[
        str,
        Option(
            "--limbs", metavar="NAME", help="Representation of field elements on a GPU; see web.md."
        ),
    ] = "",
    memory: Annotated[
        int,
        Option("--memory", metavar="MIB", help="Limit of a proof's GPU memory, in MiB."),
    ] = 1024,
    serve: Annotated[
        bool, Option("--serve", help="Serve the site on this machine until Ctrl-C.")
    ] = False,
    port: Annotated[int, Option("--port", metavar="N", help="Port for --serve.")] = 8000,
    insecure_test_key: InsecureTestKey = False,
    timings: Timings = False,
    quiet: Quiet = False,
) -> None:
    """Write a static site that proves the circuit in the visitor's browser.

    The site needs only a file server, and inputs never leave the page. The file of a circuit in
    Python is executed.
    """
    action = _action(zcash, masp)
    if action is not None:
        if key is None:
            raise WrongUsage(f"name the file {action.file_name} with --key")
        if zkey or wasm or sym or example or bellman:
            raise WrongUsage(
                "--zcash and --masp take --key alone; leave out ZKEY, --wasm, --sym, --input and "
                "--bellman"
            )
    elif zkey is None:
        raise WrongUsage("name a proving key (ZKEY), or use --zcash or --masp")
    if key is not None and not (wasm is None and sym is None):
        raise WrongUsage("--wasm and --sym are for circuits of circom; leave them out with --key")
    if key is None and wasm is None and example is not None:
        raise WrongUsage("--input requires --wasm or --key")
    if key is None and zkey is not None and ".py:" in zkey.name:
        raise WrongUsage(f"{zkey} is a circuit in Python; name its proving key with --key")
    from quod.cli.display.progress import followed_timeline
    from quod.codegen.wgsl.machine import DEFAULT_LIMBS
    from quod.field.strategies.limb_choice import LimbChoice
    from quod.web.site import export_site

    parameters = key or zkey
    assert parameters is not None
    if memory < 1:
        raise WrongUsage("--memory must be at least 1 MiB")
    try:
        LimbChoice.parse(limbs or DEFAULT_LIMBS)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        circuit = None
        if key is not None and zkey is not None:
            with timeline.stage("trace circuit"):
                circuit = _circuit(zkey, key, bellman)
        site = export_site(
            parameters, wasm, out, circuit=circuit, action=action, bellman=bellman,
            name=name, symbols=sym, example=example, limbs=limbs or DEFAULT_LIMBS,
            memory_budget=memory << 20, timeline=timeline, allow_insecure=insecure_test_key,
        )  # fmt: skip
    if timings:
        show_timings(timeline)
    if wasm is not None and sym is None and example is None:
        warn("without --sym or --input the page has no form, only a field for the input as JSON")
    note(
        f"Wrote {site.files} files to {out} in {perf_counter() - begin:.1f} s: runtime "
        f"{site.runtime / 1000:.1f} kB, {site.kernels} kernels and their graph "
        f"{site.graph / 1000:.0f} kB, key {site.data / 1e6:.1f} MB. A proof takes "
        f"{site.memory / 1e6:.0f} MB on the GPU.",
        quiet=quiet,
    )
    if serve:
        _serve(out, port)


def _action(zcash: str | None, masp: str | None) -> ProofKind | None:
    """Return the kind of proof that --zcash or --masp names, if any."""
    if zcash is None and masp is None:
        return None
    if zcash is not None and masp is not None:
        raise WrongUsage("--zcash and --masp exclude each other")
    from quod.zcash.proofs.kinds import KINDS

    protocol, statement = ("sapling", zcash) if zcash is not None else ("masp", masp)
    kinds = [kind for name, kind in KINDS.items() if name.startswith(f"{protocol}-")]
    for kind in kinds:
        if kind.name == f"{protocol}-{statement}":
            return kind
    names = [kind.name.partition("-")[2] for kind in kinds]
    raise WrongUsage(f"unknown kind {statement!r}; use {alternatives(names)}")


def _circuit(source: Path, key: Path, bellman: Path | None) -> Circuit:
    """Trace a circuit over the field of its key."""
    from quod.formats import R1cs, Zkey
    from quod.r1cs.functions.source import circuit_of_source

    curve = Zkey.open(key).curve if bellman is None else R1cs.open(bellman).curve
    return circuit_of_source(source, curve)


def _serve(folder: Path, port: int) -> None:
    from quod.web.serve import site_server

    with site_server(folder, port) as server:
        show(f"http://localhost:{server.server_port}/ (Ctrl-C to stop)")
        server.serve_forever()
