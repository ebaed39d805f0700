"""Export a static site that proves one circuit in the browser; docs/web.md describes its files."""

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
from quod.device.memory.budget import OutOfMemory
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
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import vectors_of
from quod.r1cs import Circuit
from quod.web.action import action_key, action_name, action_to_json
from quod.web.circuit_key import check_circuit
from quod.web.compression import REPLAYED, compress_bases
from quod.web.data_files import listed
from quod.web.graph import GraphFiles, Stage, graph_files
from quod.web.runtime_text import runtime_files
from quod.web.signals import merged, read_example, read_symbols, signals_of
from quod.web.witness_wasm import parse_calculator, read_calculator
from quod.zcash.proofs.kinds import ProofKind

SCHEMA = "quod-site-2"


@frozen
class Site:
    """The result of an export.

    folder: the folder of the site.
    files: the number of files.
    runtime: the size of the JavaScript runtime with its page, in bytes.
    graph: the size of the graph and its kernels, in bytes.
    data: the size of the key's data files, in bytes.
    memory: the GPU memory that a proof takes, in bytes.
    kernels: the number of kernels.
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
    circuit: Circuit | None = None,
    action: ProofKind | None = None,
    bellman: str | PathLike[str] | None = None,
    name: str | None = None,
    symbols: str | PathLike[str] | None = None,
    example: str | PathLike[str] | None = None,
    limbs: str = DEFAULT_LIMBS,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    timeline: Timeline | None = None,
    allow_insecure: bool = False,
) -> Site:
    """Write the site of a proving key to a folder, which is created if missing.

    wasm: circom's witness calculator. With neither `wasm` nor `circuit` the page takes a witness
        file (.wtns) instead of an input, `symbols` names only the public signals, and `example`
        must be None.
    circuit: the circuit in Python, in place of `wasm` and `symbols`.
    action: the kind of proof of Zcash whose parameters `zkey` is, in place of a circuit. The page
        takes the private information of a Spend, an Output or a Convert.
    bellman: a constraint system; `zkey` is then the file of bellman parameters for it.
    name: the circuit's name on the page; default: the action, or the `circuit_name` of the key's
        path.
    symbols: circom's .sym file, with the names of the signals.
    example: an input that the page offers to everyone who opens it. Without `symbols` it also
        gives the names of the input signals.
    limbs: the representation of field elements in the browser.
    memory_budget: the memory of the browser's GPU that a proof may take, in bytes.
    allow_insecure: export a key for which anyone can forge proofs; the page says that it is for
        tests only.

    Raises InsecureKeyError for a key for which anyone can forge proofs, InputError for a malformed
    file and for a circuit that has no calculator (`Circuit.wasm`), MismatchError for a calculator
    or circuit of another key, DeviceError for a circuit that exceeds the limits of browsers, and
    OutputError if writing fails.
    """
    timeline = or_null(timeline)
    _check_text(name, "the name of the circuit")
    if action is not None:
        circuit = action.circuit()
    if wasm is None and circuit is None and example is not None:
        raise InputError("an example input needs a witness calculator (wasm)", path=example)
    target = Path(folder)
    _check_folder(target)
    with timeline.stage("read key"):
        if action is not None:
            key = action_key(action, zkey, timeline, allow_insecure=allow_insecure)
        elif bellman is None:
            key = Zkey.open(Path(zkey))
            key.check_points()
        else:
            key = zkey_of(zkey, bellman, resolve_device("cpu"), timeline, checked=True)
        weakness = weakness_of(key)
        if weakness is not None and not allow_insecure:
            raise weakness.error(key.path)
        if circuit is not None and action is None:
            check_circuit(key, circuit)
        calculator = None if wasm is None else read_calculator(wasm)
        if calculator is not None:
            calculator.check(key)
    if circuit is not None:
        with timeline.stage("witness calculator"):
            calculator = parse_calculator(circuit.wasm())
    input_symbols = read_symbols(symbols, key.public) if symbols is not None else None
    if circuit is not None:
        input_symbols = signals_of(circuit)
    document, signals = read_example(example) if example is not None else (None, ())
    _check_text(document, "the example", example)
    try:
        with timeline.stage("record"):
            device = ExportDevice(limbs=limbs, memory_budget=memory_budget, replayed=REPLAYED)
            graph = record_proof(key, device)
        with timeline.stage("compress points"):
            compress_bases(device, graph.bases)
    except OutOfMemory as error:
        raise OutOfMemory(
            error.problem, "allow a proof more with --memory (in Python memory_budget)"
        ) from None
    with timeline.stage("kernels"):
        graph_files = proof_graph_files(graph)
    with timeline.stage("verifying key"):
        verifying_key = VerifyingKey.from_zkey(key, allow_insecure=True).to_json().encode()
    contents: dict[str, Content] = {**graph_files.files}
    contents["verification_key.json"] = verifying_key
    if calculator is not None:
        contents["witness.wasm"] = calculator.content
    small = {name: content for name, content in contents.items() if isinstance(content, bytes)}
    site = {
        "schema": SCHEMA,
        "quod": __version__,
        "name": name or (action_name(action) if action else circuit_name(Path(zkey))),
        "curve": key.curve,
        "variables": key.variables,
        "public": key.public,
        "constraints": key.constraints,
        "points": _points(key),
        "msms": {name: msm_shape(plan) for name, plan in graph.plans.items()},
        "insecure": weakness is not None,
        "action": action_to_json(action) if action else None,
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
    runtime = runtime_files(action=action is not None)
    # Browser caches must not mix files of a new version of the site with files of an old version.
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
    """Raise InputError if a value has a string with a lone surrogate, which UTF-8 cannot encode."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has a lone surrogate, which is not a character", path=path
        ) from error


def proof_graph_files(graph: ProofGraph[ExportDevice]) -> GraphFiles:
    """Return the files of a recorded proof.

    The graph's input is ``witness``. Its outputs are the partial sums of the MSMs by name, and a
    word ``NAME flag`` for each, which is nonzero if a scalar was not below the group
    order.
    """
    outputs = {name: lines for name, lines in graph.lines.items() if lines is not None}
    outputs |= {f"{name} flag": flag.slice(0, 4) for name, flag in graph.flags.items()}
    stages = [Stage(stage.name, stage.recording) for stage in graph.stages]
    return graph_files(graph.device, stages, inputs={"witness": graph.witness}, outputs=outputs)


def msm_shape(plan: GpuMsmPlan) -> dict[str, Any]:
    """Return the shape of an MSM's partial sums, for the runtime that adds them up."""
    vectors = [{"bits": vector.bits, "shift": vector.place} for vector in vectors_of(plan)]
    return {"windowBits": plan.window_bits, "windows": plan.windows, "vectors": vectors}


def _points(key: Zkey) -> dict[str, Any]:
    """Return the points alpha, beta and delta of a key in snarkjs's form."""
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
    """Raise OutputError if the folder has unrelated files, which would be published too."""
    with reported(fspath(folder)):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise OutputError(
                f"{fspath(folder)}: could not be written (it is not a folder); name a folder"
            )
        if any(folder.iterdir()) and not (folder / "site.json").is_file():
            raise OutputError(
                f"{fspath(folder)}: has files that do not belong to a site; "
                "name an empty or a new folder"
            )


def _write(folder: Path, contents: Mapping[str, Content]) -> None:
    is_new = not folder.exists()
    # The folder comes after its subfolders.
    folders = sorted({(folder / name).parent for name in contents}, reverse=True)
    try:
        for path in folders:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{fspath(folder)}: could not be created ({error.strerror}); {advice_on(error)}"
        ) from error
    except ValueError as error:  # a NUL or a lone surrogate
        raise OutputError(
            f"{fspath(folder)!r}: could not be created ({error}); name another folder"
        ) from error
    try:
        write_all_atomically({folder / name: content for name, content in contents.items()})
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # another process may have written files
                for path in folders:
                    path.rmdir()
        raise
    for old_file in [*folder.glob("data-*.bin"), *folder.glob("zcash/*.js")]:
        if old_file.relative_to(folder).as_posix() not in contents:
            with contextlib.suppress(OSError):
                old_file.unlink()
