"""The subjects of `quod bench`: the options of each, and its cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from quod.bench.measure.settings import ChainCurve, Constraints, Settings, StagedSettings, Threads
from quod.bench.proofs.ceremony import ceremony
from quod.bench.service.subjects import queue, serve, serve_pipeline, submit
from quod.bench.tensors.subjects import TENSOR_SUBJECTS
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Option, WrongUsage
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS

# In seconds; each variant has run twice before it is measured.
_WARM_UP_OF_STUDY = 0.1

Sizes = Annotated[
    list[int] | None,
    Option("--log2", metavar="K", least=0, most=28, help="Size 2^K; may be given several times."),
]
ZkeyFile = Annotated[Path | None, Argument("ZKEY", "Proving key of snarkjs.")]
WitnessFile = Annotated[Path | None, Argument("WTNS", "Witness of the same circuit.")]
Curve = Annotated[str, Option(help=f"{', '.join(CURVES)}.")]
AnyCurve = Annotated[str, Option(help=f"{', '.join((*CURVES, *WEIERSTRASS, *EDWARDS))}.")]


def field(
    settings: StagedSettings,
    names: Annotated[
        list[str] | None,
        Option("--field", metavar="NAME", help="bn254.fq, m31, ...; those in most use if absent."),
    ] = None,
    chosen: Annotated[
        bool, Option("--chosen", help="On WebGPU: only the limbs that Quod computes in.")
    ] = False,
    limbs: Annotated[
        list[str] | None,
        Option(
            "--limbs", metavar="LIMBS", help="On WebGPU: only these, such as 13 or 29/64:rolled."
        ),
    ] = None,
) -> None:
    """Products: throughput of one core and of all, or clocks a product of one word.

    On WebGPU it is a study: sizes of limbs, forms of products, reductions.
    """
    from quod.device.webgpu.names import is_webgpu_name

    if chosen and limbs:
        raise WrongUsage("--chosen and --limbs name limbs both: give one of them")
    if is_webgpu_name(settings.device) and not chosen and not limbs:
        from quod.bench.arithmetic.field_study_report import run_study

        run_study(settings, names or [])
        return
    from quod.bench.arithmetic.field import cases

    settings.measure("field", cases(settings.device, names or [], limbs or []))


def msm(
    settings: StagedSettings,
    curve: AnyCurve = "bls12_381",
    group: Annotated[str, Option(help="g1 or g2.")] = "g1",
    sizes: Sizes = None,
    scalars: Annotated[
        str, Option(help="uniform, bits, equal or giant (one bucket holds nearly all).")
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
        Option(metavar="NAME", help="Over this field: goldilocks, baby_bear, ..."),
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
    factors: Annotated[int, Option(least=1, most=6, help="Tables of the product.")] = 2,
    batch: Annotated[int, Option(least=1, help="Sumchecks in one launch.")] = 1,
    in_base: Annotated[
        int, Option("--in-base", least=0, help="Tables in the prime field under it.")
    ] = 0,
    weighted: Annotated[
        bool, Option("--eq", help="Weight the sums by eq of a random point.")
    ] = False,
) -> None:
    """Sumchecks of a product of tables in memory, the hashes of their transcripts included."""
    from quod.bench.arithmetic.sumcheck import cases, field_of

    bench_cases = cases(
        settings.device, field_of(field), sizes or [14, 18], factors=factors, batch=batch,
        in_base=in_base, weighted=weighted,
    )  # fmt: skip
    settings.measure("sumcheck", bench_cases)


def commitment(
    settings: StagedSettings,
    scheme: Annotated[str, Option(help="ligero, hyrax, hyperkzg or raw.")] = "ligero",
    field: Annotated[
        str | None,
        Option(metavar="NAME", help="Of the challenges: m31.4, goldilocks.2, bn254.fr, ..."),
    ] = None,
    sizes: Sizes = None,
    claims: Annotated[int, Option(least=1, most=8, help="Claims that are opened.")] = 2,
) -> None:
    """Commitments to a table in memory, openings of claims about it, and their verifier."""
    from quod.bench.proofs.commitment import cases

    settings.measure(
        "commitment", cases(settings.device, scheme, field, sizes or [12, 16, 20], claims=claims)
    )


def lookup(
    settings: StagedSettings,
    field: Annotated[
        str, Option(metavar="NAME", help="Of the challenges: m31.4, bn254.fr, ...")
    ] = "m31.4",
    sizes: Sizes = None,
    columns: Annotated[int, Option(least=1, most=1024, help="Columns of 2^K rows.")] = 1,
    bits: Annotated[int, Option(least=1, most=24, help="Of the range, or of a table.")] = 8,
    width: Annotated[int, Option(least=1, most=64, help="Elements of an entry.")] = 1,
) -> None:
    """Lookups in a range or in a table of tuples, of columns in memory and counted before."""
    from quod.bench.arithmetic.sumcheck import field_of
    from quod.bench.proofs.lookup import cases

    bench_cases = cases(
        settings.device, field_of(field), sizes or [10, 14, 18], columns=columns, bits=bits,
        width=width,
    )  # fmt: skip
    settings.measure("lookup", bench_cases)


def gkr(
    settings: StagedSettings,
    circuit: Annotated[
        str, Option(help="keccak, merkle-paths, wide (2^20 products) or small.")
    ] = "keccak",
    field: Annotated[
        str, Option(metavar="NAME", help="Of the challenges: m31.4, bn254.fr, ...")
    ] = "m31.4",
    instances: Annotated[
        list[int] | None, Option(least=1, help="Of the circuit in a proof; may be repeated.")
    ] = None,
    batch: Annotated[int, Option(least=1, help="Proofs at a time.")] = 1,
    proofs: Annotated[
        int | None, Option(least=1, help="Proofs in all; as many as at a time if absent.")
    ] = None,
    study: Annotated[
        bool,
        Option(
            "--study",
            help="What each measure of a GPU prover gains: locks, atomics, sorted runs; one pass "
            "and two; shared memory; streams; two batches in progress.",
        ),
    ] = False,
    commitment: Annotated[str, Option(help="raw, ligero or hyrax.")] = "raw",
    columns: Annotated[
        bool, Option("--columns", help="Send the values of all places: quick, long proofs.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Proofs of layered circuits and their verification, hashes and commitments included."""
    from quod.bench.arithmetic.sumcheck import field_of
    from quod.bench.proofs.gkr import CIRCUITS, cases
    from quod.gkr.reduction import Reduction

    if study:
        from quod.bench.proofs.gkr_study import study_cases

        cases_of_study = study_cases(settings.device, field_of(field))
        settings.measure("gkr", cases_of_study, warm_up=_WARM_UP_OF_STUDY)
        return
    if circuit not in CIRCUITS:
        raise WrongUsage(f"there is no circuit {circuit!r}; take {', '.join(CIRCUITS)}")
    bench_cases = cases(
        settings.device, field_of(field), circuit, instances or [1, 16], batch=batch,
        commitment=commitment, reduction=Reduction.COLUMNS if columns else Reduction.PLACES,
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
        Option(metavar="DEVICE", help="With --constraints: also on --device and these together."),
    ] = None,
    circuit: Annotated[
        str | None,
        Option(metavar="NAME", help="A circuit in Python: sapling-output, masp-output."),
    ] = None,
) -> None:
    """Proofs and verification with the key resident.

    The peer snarkjs is its library with the key in memory; `bench process` compares processes.
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
    from quod.bench.proofs.circuits import CIRCUITS, circuit_cases, process_cases

    if name not in CIRCUITS or has_more or (parameters is not None and name != CIRCUITS[0]):
        raise WrongUsage(
            f"--circuit takes one of {', '.join(CIRCUITS)}, without a witness or a chain; of "
            f"{CIRCUITS[0]} the key may be the ceremony's parameters"
        )
    device = settings.device
    settings.measure(
        "groth16",
        circuit_cases(device, name) if parameters is None else process_cases(device, parameters),
    )


def process(
    settings: Settings,
    zkey: ZkeyFile = None,
    witness: WitnessFile = None,
    constraints: Constraints = None,
    curve: ChainCurve = "bn254",
) -> None:
    """Whole processes: start-up and its budget, the first proof ever, a later one, peak memory.

    The peers snarkjs and rapidsnark are measured as their users run them, one process a proof.
    With --constraints, how long the kernels of such a proof take to compile.
    """
    from quod.bench.proofs.process import cases, chain_cases

    files = _key_or_chain(zkey, witness, constraints)
    device = settings.device
    settings.measure(
        "process",
        cases(device, *files) if files else chain_cases(device, curve, constraints or []),
        warm_up=0.0,  # each is a process of its own
    )


def porep_like(
    settings: StagedSettings,
    domain: Annotated[
        int, Option(metavar="K", least=9, most=27, help="Of 2^K rows, constraints to match.")
    ] = 27,
    bits: Annotated[int, Option(least=50, most=99, help="Percent of values 0 or 1.")] = 99,
    proofs: Annotated[int, Option(least=1, help="Partitions of one job.")] = 10,
    pageable: Annotated[
        bool, Option("--pageable", help="Witnesses in ordinary memory, not page-locked.")
    ] = False,
    streamed: Annotated[
        int | None,
        Option(metavar="P", least=1, most=99, help="Only P percent of the key stay on the device."),
    ] = None,
    timeline: Annotated[
        Path | None,
        Option(metavar="FILE", help="With --streamed: draw copies and sums of each way."),
    ] = None,
    cupti: Annotated[
        bool, Option("--cupti", help="In a row: how long copies and no kernels run.")
    ] = False,
    plan: Annotated[
        bool, Option("--plan", help="Only print what the memory of an H200 goes to.")
    ] = False,
) -> None:
    """A partition of PoRep's shape, its key made on the device: one, and several in a row."""
    from quod.bench.proofs import porep

    if plan:
        if streamed is not None:
            raise WrongUsage("--plan is of a key that stays whole; leave out --streamed")
        if cupti:
            raise WrongUsage("--plan runs nothing that --cupti could record")
        if settings.gate is not None:
            raise WrongUsage("--plan measures nothing that --gate could compare")
        porep.plan(domain, bits, as_json=settings.as_json)
        return
    if streamed is not None:
        from quod.bench.proofs.streamed import cases

        if cupti:
            raise WrongUsage("--cupti is of a key that stays whole; leave out --streamed")
        check_outputs([timeline] if timeline else [], [])
        bench_cases = cases(
            settings.device, domain, bits, streamed / 100, timeline, quiet=settings.quiet
        )
        settings.measure("porep-like", bench_cases, warm_up=0.0)
        return
    if timeline is not None:
        raise WrongUsage("--timeline draws what --streamed measures")
    from quod.bench.measure.cupti import recorder_of

    bench_cases = porep.cases(
        settings.device, domain, bits, proofs, pageable=pageable, quiet=settings.quiet,
        recorder=recorder_of(settings.device) if cupti else None,
    )  # fmt: skip
    settings.measure("porep-like", bench_cases, warm_up=0.0)


def witness(
    settings: Settings,
    wasm: Annotated[Path, Argument("WASM", "Witness calculator of circom.")],
    inputs: Annotated[Path, Argument("INPUT", "Inputs of the circuit (JSON).")],
    threads: Annotated[
        list[int] | None,
        Option(metavar="N", least=1, help="Threads at a time; may be given several times."),
    ] = None,
) -> None:
    """Witnesses from inputs in the service's sandbox, with the calculator compiled.

    The peer snarkjs is a process for each witness.
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
        list[str] | None, Option("--step", help="setup, memory, contribute or verify.")
    ] = None,
    curve: Curve = "bn254",
) -> None:
    """The second phase of a ceremony: keys of chains from powers of tau, contributions, checks.

    The peer snarkjs is its library; powers are INSECURE ones, made for the occasion.
    """
    from quod.bench.proofs.second_phase import STEPS, cases

    if unknown := set(steps or []) - set(STEPS):
        raise WrongUsage(f"a step is one of {', '.join(STEPS)}, not {min(unknown)}")
    chosen = list(dict.fromkeys(steps or STEPS))
    settings.measure("setup", cases(settings.device, curve, power or [12], chosen), warm_up=0.0)


def solidity(settings: Settings, curve: Curve = "bn254") -> None:
    """Gas of a contract that verifies proofs, as an Ethereum VM counts it; snarkjs's beside it.

    It needs solc and @ethereumjs/evm in build/node (tools/setup.sh node).
    """
    from quod.bench.proofs.solidity import cases

    settings.measure("solidity", cases(curve), warm_up=0.0)


def verify(
    settings: Settings,
    vkey: Annotated[Path, Argument("VKEY", "Verifying key.")],
    public: Annotated[Path, Argument("PUBLIC", "List of lists of public inputs.")],
    proof: Annotated[Path, Argument("PROOF", "As many proofs.")],
) -> None:
    """Many proofs verified together, as `quod groth16 verify --batch` does.

    The peer one-by-one is Quod's own verification of each.
    """
    from quod.bench.proofs.verify import cases

    settings.measure("verify", cases(settings.device, vkey, public, proof))


def quant(
    settings: StagedSettings,
    type_name: Annotated[
        str, Option("--type", metavar="TYPE", help="A block type; a wrong name lists them.")
    ] = "Q4_K",
    size: Annotated[int, Option(least=32, most=1 << 16, help="Rows and columns.")] = 4096,
    matrices: Annotated[int, Option(least=1, help="Different ones, in a chain.")] = 32,
    lanes: Annotated[int | None, Option(help="Instances of a workgroup.")] = None,
    width: Annotated[int | None, Option(help="Places of a block an instance.")] = None,
    rows: Annotated[int | None, Option(help="Rows of an instance.")] = None,
    together: Annotated[
        int | None, Option(help="Parts of a subgroup with rows of their own.")
    ] = None,
    activations: Annotated[str, Option(help="exact or int8.")] = "exact",
    batch: Annotated[
        int | None,
        Option(least=1, help="Rows of --dtype in place of a vector; the peer: torch."),
    ] = None,
    dtype: Annotated[str, Option(help="With --batch: f32, f16 or bf16.")] = "f16",
    plan: Annotated[
        str | None, Option(help="With --batch: fused or dequantised; else the faster.")
    ] = None,
    workspaces: Annotated[
        int | None,
        Option(least=1, help="With --batch: memory for weights, which products take in turn."),
    ] = None,
) -> None:
    """Quantised weights times a vector: a chain of matrices, against a copy of as many bytes."""
    options = {"lanes": lanes, "width": width, "at_once": rows, "together": together}
    layout = {name: value for name, value in options.items() if value is not None}
    if batch is not None:
        from quod.bench.tensors import quantised_rows

        if layout:
            raise WrongUsage(
                "--lanes, --width, --rows and --together share a vector's product out: leave them "
                "or --batch out"
            )
        rows_of = quantised_rows.cases(
            settings.device, type_name, size, matrices, batch, dtype, activations, plan,
            workspaces or 1,
        )  # fmt: skip
        settings.measure("quant", rows_of)
        return
    if plan is not None or workspaces is not None:
        raise WrongUsage("--plan and --workspaces are of rows: leave them out, or give --batch")
    from quod.bench.tensors.quantised_vectors import cases

    bench_cases = cases(settings.device, type_name, size, matrices, layout, activations)
    settings.measure("quant", bench_cases)


def _key_or_chain(
    zkey: Path | None, witness: Path | None, constraints: list[int] | None
) -> tuple[Path, Path] | None:
    """Return the given files, or None for chains; raises WrongUsage for neither or both."""
    files = None if zkey is None or witness is None else (zkey, witness)
    if (files is None) == (not constraints) or (files is None and zkey is not None):
        raise WrongUsage("give a proving key and its witness, or --constraints")
    return files


SUBJECTS: tuple[Callable[..., None], ...] = (
    field, msm, ntt, sumcheck, commitment, lookup, gkr, groth16, verify, process, porep_like,
    queue, submit, witness, setup, solidity, ceremony, serve_pipeline, serve,
    quant, *TENSOR_SUBJECTS,
)  # fmt: skip
