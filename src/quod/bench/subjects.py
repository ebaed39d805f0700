"""The subjects of `quod bench`: the options of each, and its cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from quod.bench.measure.settings import ChainCurve, Constraints, Settings, StagedSettings, Threads
from quod.bench.proofs.ceremony import ceremony
from quod.bench.proofs.filecoin import filecoin
from quod.bench.proofs.zcash import zcash
from quod.bench.service.subjects import queue, serve, serve_pipeline, submit
from quod.bench.tensors.subjects import TENSOR_SUBJECTS
from quod.cli.parameters import Argument, Option, WrongUsage
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS

# In seconds; short, as each variant has run twice before it is measured.
_STUDY_WARM_UP_SECONDS = 0.1

Sizes = Annotated[
    list[int] | None,
    Option("--log2", metavar="K", least=0, most=28, help="Size 2^K; may be given several times."),
]
ZkeyFile = Annotated[Path | None, Argument("ZKEY", "The proving key, a .zkey file.")]
WitnessFile = Annotated[Path | None, Argument("WTNS", "A witness of the same circuit (.wtns).")]
Curve = Annotated[str, Option(help=f"The curve: {', '.join(CURVES)}.")]
AnyCurve = Annotated[str, Option(help=f"{', '.join((*CURVES, *WEIERSTRASS, *EDWARDS))}.")]


def field(
    settings: StagedSettings,
    names: Annotated[
        list[str] | None,
        Option("--field", metavar="NAME", help="A field such as m31. Default: those in most use."),
    ] = None,
    chosen: Annotated[
        bool, Option("--chosen", help="On WebGPU: only the limb representation that Quod uses.")
    ] = False,
    limbs: Annotated[
        list[str] | None,
        Option(
            "--limbs",
            metavar="LIMBS",
            help="On WebGPU: only these limbs, such as 13 or 29/64:rolled.",
        ),
    ] = None,
) -> None:
    """Field products: the throughput of one core, all cores or a GPU.

    On WebGPU, compare limb sizes, product algorithms and reductions.
    """
    from quod.device.webgpu.names import is_webgpu_name

    if chosen and limbs:
        raise WrongUsage("--chosen and --limbs both choose limbs; give one of them")
    if is_webgpu_name(settings.device) and not chosen and not limbs:
        from quod.bench.arithmetic.field_study_report import run_study

        run_study(settings, names or [])
        return
    from quod.bench.arithmetic.field import cases

    settings.measure("field", cases(settings.device, names or [], limbs or []))


def msm(
    settings: StagedSettings,
    curve: AnyCurve = "bls12_381",
    group: Annotated[str, Option(help="The group: g1 or g2.")] = "g1",
    sizes: Sizes = None,
    scalars: Annotated[
        str, Option(help="The scalars: uniform, bits, equal or giant (nearly all in one bucket).")
    ] = "uniform",
) -> None:
    """Multi-scalar multiplication over distinct points."""
    from quod.bench.arithmetic.msm import cases

    settings.measure(
        "msm", cases(settings.device, curve, group, sizes or [12, 14, 16], scalars)
    )  # fmt: skip


def ntt(
    settings: StagedSettings,
    curve: Curve = "bn254",
    field: Annotated[
        str | None,
        Option(metavar="NAME", help="A field such as goldilocks, instead of a curve's."),
    ] = None,
    sizes: Sizes = None,
) -> None:
    """Number-theoretic transforms over the scalar field of a curve, or over another field."""
    from quod.bench.arithmetic.ntt import cases, subject_of

    subject = subject_of(curve, field)
    settings.measure("ntt", cases(settings.device, subject, sizes or [14, 16, 18, 20]))


def sumcheck(
    settings: StagedSettings,
    field: Annotated[
        str, Option(metavar="NAME", help="Of the challenges: m31.4, bn254.fr, ...")
    ] = "m31.4",
    sizes: Sizes = None,
    factors: Annotated[int, Option(least=1, most=6, help="Number of tables in the product.")] = 2,
    batch: Annotated[int, Option(least=1, help="Number of sumchecks in a launch.")] = 1,
    in_base: Annotated[
        int, Option("--in-base", least=0, help="Number of tables over the prime subfield.")
    ] = 0,
    weighted: Annotated[
        bool, Option("--eq", help="Weight the terms by the eq table of a random point.")
    ] = False,
) -> None:
    """Sumchecks of a product of tables in memory, with the hashes of their transcripts."""
    from quod.bench.arithmetic.sumcheck import cases, field_of

    bench_cases = cases(
        settings.device, field_of(field), sizes or [14, 18], factors=factors, batch=batch,
        in_base=in_base, weighted=weighted,
    )  # fmt: skip
    settings.measure("sumcheck", bench_cases)


def commitment(
    settings: StagedSettings,
    scheme: Annotated[str, Option(help="Scheme: ligero, hyrax, hyperkzg or raw.")] = "ligero",
    field: Annotated[
        str | None,
        Option(metavar="NAME", help="The challenge field, such as m31.4 or bn254.fr."),
    ] = None,
    sizes: Sizes = None,
    claims: Annotated[int, Option(least=1, most=8, help="Number of opened claims.")] = 2,
) -> None:
    """Commitments to a table in memory, openings of evaluation claims, and their verification."""
    from quod.bench.proofs.commitment import cases

    settings.measure(
        "commitment", cases(settings.device, scheme, field, sizes or [12, 16, 20], claims=claims)
    )


def lookup(
    settings: StagedSettings,
    field: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Of the challenges: m31.4 (default), bn254.fr, ...; goldilocks.2 of integers.",
        ),
    ] = None,
    sizes: Sizes = None,
    columns: Annotated[int, Option(least=1, most=1024, help="Columns of 2^K rows each.")] = 1,
    bits: Annotated[
        int | None,
        Option(least=1, most=24, help="log2 of the range or table size: 8, or 16 of integers."),
    ] = None,
    width: Annotated[int, Option(least=1, most=64, help="Elements per table entry.")] = 1,
    integers: Annotated[
        bool, Option(help="Columns of integers of few bits: counts, lookups and commitment.")
    ] = False,
) -> None:
    """Lookups of columns in memory in a range or a table of tuples, with known multiplicities."""
    from quod.bench.arithmetic.sumcheck import field_of
    from quod.bench.proofs.lookup import cases, integer_cases

    if integers:
        steps = integer_cases(
            settings.device, field_of(field or "goldilocks.2"), sizes, columns=columns,
            bits=bits or 16,
        )  # fmt: skip
        settings.measure("lookup", steps)
        return
    bench_cases = cases(
        settings.device, field_of(field or "m31.4"), sizes or [10, 14, 18], columns=columns,
        bits=bits or 8, width=width,
    )  # fmt: skip
    settings.measure("lookup", bench_cases)


def gkr(
    settings: StagedSettings,
    circuit: Annotated[
        str, Option(help="Circuit: keccak, merkle-paths, wide (2^20 products) or small.")
    ] = "keccak",
    field: Annotated[
        str, Option(metavar="NAME", help="Of the challenges: m31.4, bn254.fr, ...")
    ] = "m31.4",
    instances: Annotated[
        list[int] | None, Option(least=1, help="Circuit instances in a proof; may be repeated.")
    ] = None,
    batch: Annotated[int, Option(least=1, help="Number of proofs in a batch.")] = 1,
    proofs: Annotated[
        int | None, Option(least=1, help="The total number of proofs. Default: one batch.")
    ] = None,
    study: Annotated[
        bool,
        Option(
            "--study",
            help="What each measure of a GPU prover gains: locks, atomics, sorted runs; one pass "
            "and two; shared memory; streams; two batches in progress.",
        ),
    ] = False,
    commitment: Annotated[str, Option(help="The commitment: raw, ligero or hyrax.")] = "raw",
    columns: Annotated[
        bool, Option("--columns", help="Use the data-parallel reduction: fast, large proofs.")
    ] = False,
    threads: Threads = None,
) -> None:
    """GKR proofs of layered circuits and their verification, with hashes and commitments."""
    from quod.bench.arithmetic.sumcheck import field_of
    from quod.bench.proofs.gkr import CIRCUITS, cases
    from quod.gkr.reduction import Reduction

    if study:
        from quod.bench.proofs.gkr_study import study_cases

        bench_cases = study_cases(settings.device, field_of(field))
        settings.measure("gkr", bench_cases, warm_up=_STUDY_WARM_UP_SECONDS)
        return
    if circuit not in CIRCUITS:
        raise WrongUsage(f"there is no circuit {circuit!r}; choose one of {', '.join(CIRCUITS)}")
    bench_cases = cases(
        settings.device, field_of(field), circuit, instances or [1, 16], batch=batch,
        commitment=commitment,
        reduction=Reduction.DATA_PARALLEL if columns else Reduction.TWO_PHASE,
        proofs=proofs, threads=threads,
    )  # fmt: skip
    settings.measure("gkr", bench_cases)


def groth16(
    settings: StagedSettings,
    zkey: ZkeyFile = None,
    witness: WitnessFile = None,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
    also: Annotated[
        list[str] | None,
        Option(
            metavar="DEVICE", help="With --constraints: also on --device and this one together."
        ),
    ] = None,
    circuit: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="A circuit in Python, such as sapling-spend; see `quod zcash circuit`.",
        ),
    ] = None,
) -> None:
    """Proofs and verification with the key resident.

    The peer snarkjs runs as a library with the key in memory; `bench process` compares processes.
    """
    from quod.bench.proofs.groth16 import cases, chain_cases

    if circuit is not None:
        _measure_circuit(settings, circuit, zkey, bool(witness or constraints or also))
        return
    files = _key_or_chain(zkey, witness, constraints)
    device, against = settings.device, settings.against
    settings.measure(
        "groth16",
        cases(device, *files)
        if files
        else chain_cases(device, curve, constraints or [], against=against, also=also or []),
    )


def _measure_circuit(
    settings: StagedSettings, name: str, parameters: Path | None, has_more: bool
) -> None:
    from quod.bench.proofs.circuits import circuit_cases, process_cases
    from quod.bench.proofs.zcash import CIRCUITS

    if name not in CIRCUITS or has_more or (parameters is not None and name != CIRCUITS[0]):
        raise WrongUsage(
            f"--circuit must be one of {', '.join(CIRCUITS)}, without a witness or a chain; only "
            f"{CIRCUITS[0]} takes a key, the parameters of the ceremony"
        )
    device, cases = settings.device, circuit_cases(settings.device, name)
    settings.measure("groth16", cases if parameters is None else process_cases(device, parameters))


def process(
    settings: Settings,
    zkey: ZkeyFile = None,
    witness: WitnessFile = None,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
) -> None:
    """Whole processes: start-up and its budget, a first and a later proof, and peak memory.

    The peers snarkjs and rapidsnark run as their users run them, a process for each proof.
    --against also takes the path of another program, which is called with the files of the key, the
    witness, the proof and the public values, or of rapidsnark's shared library.
    With --constraints, measure the compilation of the kernels of such a proof.
    """
    from quod.bench.peers.programs import ProverAtPath, is_path
    from quod.bench.proofs.process import cases, chain_cases

    files = _key_or_chain(zkey, witness, constraints)
    device, peer = settings.device, None
    if settings.against is not None and is_path(settings.against):
        peer = ProverAtPath(settings.against)
        settings = replace(settings, against=peer.name)
    settings.measure(
        "process",
        cases(device, *files, peer) if files else chain_cases(device, curve, constraints or []),
        warm_up=0.0,  # each is a process of its own
    )


def witness(
    settings: Settings,
    wasm: Annotated[Path, Argument("WASM", "The witness calculator of circom.")],
    inputs: Annotated[Path, Argument("INPUT", "The inputs of the circuit (JSON).")],
    threads: Annotated[
        list[int] | None,
        Option(metavar="N", least=1, help="Number of threads; may be given several times."),
    ] = None,
) -> None:
    """Witness calculation in the service's sandbox, with a compiled calculator.

    The peer snarkjs runs a process for each witness.
    """
    from quod.bench.proofs.witness import cases

    settings.measure("witness", cases(wasm, inputs, threads or [1, 2]))


def setup(
    settings: Settings,
    power: Annotated[
        list[int] | None,
        Option(metavar="P", least=2, most=24, help="A domain of 2^P; may be repeated."),
    ] = None,
    steps: Annotated[
        list[str] | None, Option("--step", help="The step: setup, memory, contribute or verify.")
    ] = None,
    curve: Curve = "bn254",
) -> None:
    """The second phase of a ceremony: keys from powers of tau, contributions, verification.

    The peer snarkjs runs as a library. The powers of tau are INSECURE test powers.
    """
    from quod.bench.proofs.second_phase import STEPS, cases

    if unknown := set(steps or []) - set(STEPS):
        raise WrongUsage(f"--step must be one of {', '.join(STEPS)}, not {min(unknown)}")
    chosen = list(dict.fromkeys(steps or STEPS))
    settings.measure("setup", cases(settings.device, curve, power or [12], chosen), warm_up=0.0)


def solidity(settings: Settings, curve: Curve = "bn254") -> None:
    """Gas of Quod's and snarkjs's verifier contracts, as an Ethereum VM counts it.

    Needs solc and @ethereumjs/evm in build/node (tools/setup.sh node).
    """
    from quod.bench.proofs.solidity import cases

    settings.measure("solidity", cases(curve), warm_up=0.0)


def verify(
    settings: Settings,
    vkey: Annotated[Path, Argument("VKEY", "The verifying key.")],
    public: Annotated[Path, Argument("PUBLIC", "The public inputs, a list for each proof (JSON).")],
    proof: Annotated[Path, Argument("PROOF", "The list of proofs (JSON).")],
) -> None:
    """Batch verification of proofs, as in `quod groth16 verify --batch`.

    The peer one-by-one is Quod's verification of each proof.
    """
    from quod.bench.proofs.verify import cases

    settings.measure("verify", cases(settings.device, vkey, public, proof))


def quant(
    settings: StagedSettings,
    type_name: Annotated[
        str,
        Option("--type", metavar="TYPE", help="The block type; an unknown name lists the types."),
    ] = "Q4_K",
    size: Annotated[
        int, Option(least=32, most=1 << 16, help="Number of rows and of columns.")
    ] = 4096,
    matrices: Annotated[int, Option(least=1, help="Number of different matrices in a chain.")] = 32,
    lanes: Annotated[int | None, Option(help="Number of instances of a workgroup.")] = None,
    width: Annotated[int | None, Option(help="Number of elements of a block per instance.")] = None,
    rows: Annotated[int | None, Option(help="Number of rows per instance.")] = None,
    together: Annotated[
        int | None, Option(help="Parts of a subgroup that compute different rows.")
    ] = None,
    activations: Annotated[str, Option(help="The activations: exact or int8.")] = "exact",
    batch: Annotated[
        int | None,
        Option(least=1, help="Multiply N rows of --dtype, not a vector; peer: torch."),
    ] = None,
    dtype: Annotated[
        str, Option(help="With --batch: the type of the rows, f32, f16 or bf16.")
    ] = "f16",
    plan: Annotated[
        str | None, Option(help="With --batch: fused or dequantised. Default: the faster plan.")
    ] = None,
    workspaces: Annotated[
        int | None,
        Option(least=1, help="With --batch: number of workspaces, used in turn."),
    ] = None,
) -> None:
    """Products of quantised matrices with a vector; the peer copies as many bytes."""
    options = {"lanes": lanes, "width": width, "rows_per_instance": rows, "row_groups": together}
    layout = {name: value for name, value in options.items() if value is not None}
    if batch is not None:
        from quod.bench.tensors import quantised_rows

        if layout:
            raise WrongUsage(
                "--lanes, --width, --rows and --together apply only to a vector: leave out "
                "these options or --batch"
            )
        rows_of = quantised_rows.cases(
            settings.device, type_name, size, matrices, batch, dtype, activations, plan,
            workspaces or 1,
        )  # fmt: skip
        settings.measure("quant", rows_of)
        return
    if plan is not None or workspaces is not None:
        raise WrongUsage("--plan and --workspaces require --batch")
    from quod.bench.tensors.quantised_vectors import cases

    bench_cases = cases(settings.device, type_name, size, matrices, layout, activations)
    settings.measure("quant", bench_cases)


def _key_or_chain(
    zkey: Path | None, witness: Path | None, constraints: list[int] | None
) -> tuple[Path, Path] | None:
    """Return the key and the witness, or None if chains are measured.

    Raises WrongUsage unless the command has either both files or constraints.
    """
    files = None if zkey is None or witness is None else (zkey, witness)
    if (files is None) == (not constraints) or (files is None and zkey is not None):
        raise WrongUsage("give either a proving key and a witness, or --constraints")
    return files


SUBJECTS: tuple[Callable[..., None], ...] = (
    field, msm, ntt, sumcheck, commitment, lookup, gkr, groth16, verify, process,
    filecoin, zcash, queue, submit, witness, setup, solidity, ceremony, serve_pipeline, serve,
    quant, *TENSOR_SUBJECTS,
)  # fmt: skip
