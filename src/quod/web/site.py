"""A static site that proves one circuit in the browser; docs/web.md describes its files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from quod import __version__
from quod.codegen.wgsl.machine import DEFAULT_LIMBS
from quod.curve.array import to_points
from quod.curve.groups import GROUPS
from quod.device.discovery import resolve_device
from quod.device.export.device import DEFAULT_MEMORY_BUDGET, ExportDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, OutputError
from quod.formats import Zkey, write_all_atomically
from quod.formats.names import circuit_name
from quod.formats.output import Content, advice_on, reported
from quod.frozen import frozen
from quod.groth16.encodings.bellman_key import zkey_of
from quod.groth16.gpu.graph import ProofGraph, record_proof
from quod.groth16.soundness import weakness_of
from quod.groth16.verifier import VerifyingKey
from quod.web.graph import GraphFiles, Stage, graph_files, listed
from quod.web.runtime_text import runtime_files
from quod.web.signals import merged, read_example, read_symbols
from quod.web.witness_wasm import read_calculator

SCHEMA = "quod-site-1"


@frozen
class Site:
    """The result of an export.

    folder: The folder of the site.
    files: The number of files.
    runtime: Bytes of the runtime, with its page.
    graph: Bytes of the graph and its kernels.
    data: Bytes of the key's data.
    memory: Bytes that a proof takes on the GPU.
    kernels: The number of kernels.
    """

    folder: Path
    files: int
    runtime: int
    graph: int
    data: int
    memory: int
    kernels: int


def export_site(
    zkey: str | PathLike[str],
    wasm: str | PathLike[str] | None,
    folder: str | PathLike[str],
    *,
    bellman: str | PathLike[str] | None = None,
    name: str | None = None,
    symbols: str | PathLike[str] | None = None,
    example: str | PathLike[str] | None = None,
    limbs: str = DEFAULT_LIMBS,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    timeline: Timeline | None = None,
    allow_insecure: bool = False,
) -> Site:
    """Write the site of a key and circom's witness calculator to a folder, which is created.

    Without a calculator (None), as for a circuit in Python, the page takes a witness (.wtns)
    instead of an input; `symbols` then names only the public signals, and there is no `example`.
    With `bellman`, a constraint system, `zkey` is the bellman parameters for it. `name` is the
    circuit's name on the page, by default that of `circuit_name` for the key's path. `symbols` (a
    .sym file) or `example` (an input, which the page offers to everyone who opens it) name the
    input signals. `limbs` selects the representation of elements in the browser; `memory_budget` is
    in bytes of the browser's GPU.

    Raises InsecureKeyError for a key for which anyone can forge proofs, unless `allow_insecure`
    marks the site as a test, as the page then says; InputError for a malformed file; MismatchError
    for a calculator of another circuit; DeviceError for a circuit that exceeds the limits of
    browsers; OutputError if writing fails.
    """
    timeline = or_null(timeline)
    _check_text(name, "the name of the circuit")
    if wasm is None and example is not None:
        raise InputError("an example of an input needs the calculator that takes it", path=example)
    target = Path(folder)
    _check_folder(target)
    with timeline.stage("read key"):
        if bellman is None:
            key = Zkey.open(Path(zkey))
            key.check_points()
        else:
            key = zkey_of(zkey, bellman, resolve_device("cpu"), timeline, checked=True)
        weakness = weakness_of(key)
        if weakness is not None and not allow_insecure:
            raise weakness.error(key.path)
        calculator = None if wasm is None else read_calculator(wasm)
        if calculator is not None:
            calculator.check(key)
    input_symbols = read_symbols(symbols, key.public) if symbols is not None else None
    document, signals = read_example(example) if example is not None else (None, ())
    _check_text(document, "the example", example)
    with timeline.stage("record"):
        device = ExportDevice(limbs=limbs, memory_budget=memory_budget)
        graph = record_proof(key, device)
    with timeline.stage("kernels"):
        graph_files = proof_graph_files(graph)
    with timeline.stage("verifying key"):
        verifying = VerifyingKey.from_zkey(key, allow_insecure=True).to_json().encode()
    contents: dict[str, Content] = {**graph_files.files}
    contents["verification_key.json"] = verifying
    if calculator is not None:
        contents["witness.wasm"] = calculator.content
    small = {name: content for name, content in contents.items() if isinstance(content, bytes)}
    site = {
        "schema": SCHEMA,
        "quod": __version__,
        "name": name or circuit_name(Path(zkey)),
        "curve": key.curve,
        "variables": key.variables,
        "public": key.public,
        "constraints": key.constraints,
        "points": _points(key),
        "insecure": weakness is not None,
        "signals": [signal.to_json() for signal in merged(input_symbols, signals)]
        if calculator
        else [],
        "publics": list(input_symbols.publics) if input_symbols is not None else [],
        "example": document,
        "needs": {"limits": dict(graph_files.limits), "features": [], "memory": graph_files.memory},
        "download": graph_files.data,
        "files": {
            name: listed(small[name])
            for name in ("graph.json", "witness.wasm", "verification_key.json")
            if name in small
        },
    }
    # A file name may have bytes that are not UTF-8.
    text = json.dumps(site, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    runtime = runtime_files()
    # A new version of the site must not be mixed with files of an old one in browser caches.
    version = hashlib.sha256(text + b"".join(runtime.values())).hexdigest()[:16]
    runtime["offline.js"] = runtime["offline.js"].replace(b"VERSION", version.encode())
    contents |= {"site.json": text, **runtime}
    with timeline.stage("write"):
        _write(target, contents)
    kernels = json.loads(small["kernels.json"])
    return Site(
        folder=target,
        files=len(contents),
        runtime=sum(len(code) for file, code in runtime.items() if not file.endswith(".d.ts")),
        graph=len(small["graph.json"]) + len(small["kernels.json"]),
        data=graph_files.data,
        memory=graph_files.memory,
        kernels=len(kernels),
    )


def _check_text(value: object, what: str, path: str | PathLike[str] | None = None) -> None:
    """Raise InputError for strings that no file can hold, because they have a lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has a lone surrogate, which is no character", path=path
        ) from error


def proof_graph_files(graph: ProofGraph[ExportDevice]) -> GraphFiles:
    """Return the files of a recorded proof.

    Its input is ``witness``; its outputs are the sums by name, and for each a ``NAME flag``.
    """
    outputs = {name: point for name, point in graph.results.items() if point is not None}
    outputs |= {f"{name} flag": flag.slice(0, 4) for name, flag in graph.flags.items()}
    stages = [Stage(stage.name, stage.recording) for stage in graph.stages]
    return graph_files(graph.device, stages, inputs={"witness": graph.witness}, outputs=outputs)


def _points(key: Zkey) -> dict[str, Any]:
    """Return the single points of a key in snarkjs's form."""
    encoded: dict[str, Any] = {}
    g1, g2 = GROUPS[f"{key.curve}.g1"], GROUPS[f"{key.curve}.g2"]
    for name in ("alpha", "beta", "delta"):
        words = getattr(key, f"{name}_g1")
        (point,) = to_points(g1, np.stack([words]))
        if point is None:
            raise InputError(f"{name}_g1 is the point at infinity", path=key.path)
        encoded[f"{name}1"] = [*map(str, point), "1"]
    for name in ("beta", "delta"):
        words = getattr(key, f"{name}_g2")
        (pair,) = to_points(g2, np.stack([words]))
        if pair is None:
            raise InputError(f"{name}_g2 is the point at infinity", path=key.path)
        encoded[f"{name}2"] = [*([*map(str, c)] for c in pair), ["1", "0"]]
    return encoded


# --- the folder


def _check_folder(folder: Path) -> None:
    """Raise OutputError for a folder with unrelated files, which would be published too."""
    with reported(fspath(folder)):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise OutputError(
                f"{fspath(folder)}: could not be written (is no folder); name a folder"
            )
        if any(folder.iterdir()) and not (folder / "site.json").is_file():
            raise OutputError(
                f"{fspath(folder)}: has files that are none of a site; "
                "name an empty or a new folder"
            )


def _write(folder: Path, contents: Mapping[str, Content]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{fspath(folder)}: could not be made ({error.strerror}); {advice_on(error)}"
        ) from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise OutputError(
            f"{fspath(folder)!r}: could not be made ({error}); name another folder"
        ) from error
    write_all_atomically({folder / name: content for name, content in contents.items()})
    for old in folder.glob("data-*.bin"):
        if old.name not in contents:
            with contextlib.suppress(OSError):
                old.unlink()
