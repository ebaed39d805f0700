"""Each subject of quod bench measures its own operation and rejects unknown arguments."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.bench.arithmetic import short_field
from quod.bench.measure.harness import Seconds
from quod.bench.measure.settings import Settings, StagedSettings, subject_command
from quod.bench.proofs import gkr as bench_gkr
from quod.bench.proofs import gkr_study, process
from quod.bench.proofs.commitment import cases as commitments
from quod.bench.subjects import SUBJECTS
from quod.bench.tensors import inference
from quod.bench.tensors.inference import random_perceptron
from quod.cli import entry
from quod.device.discovery import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.field.moduli import GOLDILOCKS, M31, NAMED, Modulus
from quod.field.named_extensions import EXTENSIONS
from quod.gkr import Reduction
from quod.inference import Prover
from quod.kernel import U32, U64, Builder, Pointer, kernel, u32
from quod.service.worker import Stage as WorkerStage
from tests.support.node import program
from tests.support.thorough import one_and_others

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]


def test_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["bench", "field", "--field", "bn254.fr", *ONCE]) == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)
    threads = sorted({1, len(os.sched_getaffinity(0))})
    assert [row["parameters"]["threads"] for row in rows] == threads
    for row in rows:
        assert (row["subject"], row["unit"]) == ("field", "ns/product")
        assert row["parameters"]["field"] == "bn254.fr"
        # Between a product that nobody has reached and one in plain Python while others compute.
        assert 0.05 < row["median"] < 200_000
    assert captured.err == ""


@pytest.mark.parametrize("name", ["m31", "baby_bear", "goldilocks"])
def test_a_field_of_one_word(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_field, "_WINDOWS", 2)
    monkeypatch.setattr(short_field, "_CPU_ARRAY_BYTES", 1 << 20)
    assert entry.run(["bench", "field", "--field", name, *ONCE]) == 0
    rows = {row["unit"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {"clocks/product", "GB/s"}
    # A busy machine takes longer, and no processor makes a hundred products a clock.
    assert 0.01 < rows["clocks/product"]["median"] < 100_000
    assert 0 < rows["GB/s"]["median"] < 10_000
    assert {row["parameters"]["field"] for row in rows.values()} == {name}


@pytest.mark.parametrize("modulus", [M31, GOLDILOCKS], ids=lambda modulus: modulus.name)
def test_field_cases_on_a_gpu(
    modulus: Modulus, gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cases check their products; the test uses few of them."""
    monkeypatch.setattr(short_field, "_GPU_ITERATIONS", 1)
    monkeypatch.setattr(short_field, "_GPU_ARRAY_BYTES", 1 << 14)
    cases = list(short_field.cases(modulus, gpu_device))
    assert [case.unit for case in cases] == ["G/s", "GB/s"]
    for case in cases:
        figure = case.run()
        assert isinstance(figure, float)
        assert figure > 0


@pytest.mark.parametrize("scheme", ["ligero", "hyperkzg"])
def test_commitment_cases_time_commit_open_and_verify(scheme: str) -> None:
    cases = list(commitments("cpu", scheme, None, [6], claims=2))
    times = ["commit", "open", "verify", *(["verify on the device"] if scheme == "ligero" else [])]
    assert [case.parameters["time"] for case in cases] == times
    assert cases[1].run() == cases[1].run()
    for case in cases:
        case.run()
        timeline = Timeline()
        if case.traced is not None:
            case.traced(timeline)
            assert timeline.rows()


@pytest.mark.parametrize("reduction", Reduction)
def test_layered_circuits_are_proved_and_verified(
    monkeypatch: pytest.MonkeyPatch, reduction: Reduction
) -> None:
    monkeypatch.setattr(bench_gkr, "_LOG_SIZE", 3)
    monkeypatch.setattr(bench_gkr, "_LAYERS", 2)
    monkeypatch.setitem(bench_gkr.CIRCUITS, "wide", bench_gkr.wide.__wrapped__)
    settings: dict[str, Any] = {"batch": 2, "commitment": "raw", "reduction": reduction}
    cases = list(bench_gkr.cases("cpu", EXTENSIONS["m31.4"], "wide", [1, 3], **settings))
    assert [case.parameters["what"] for case in cases] == ["prove", "verify"] * 2
    assert [case.operations for case in cases] == [2, 2, 6, 2]
    for case in cases:
        timeline = Timeline()
        assert case.traced is not None
        case.traced(timeline)
        assert timeline.rows()


@pytest.mark.thorough
def test_more_proofs_than_the_batch_size() -> None:
    settings: dict[str, Any] = {"batch": 2, "commitment": "raw", "reduction": Reduction.TWO_PHASE}
    field = EXTENSIONS["m31.3"]
    prove, verify = bench_gkr.cases("cpu", field, "small", [1], proofs=3, **settings)
    assert (prove.parameters["proofs"], prove.operations, verify.operations) == (3, 3, 2)
    verify.run()


def test_paths_of_a_tree_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_gkr, "_DEPTH", 1)
    monkeypatch.setitem(
        bench_gkr.CIRCUITS, "merkle-paths", bench_gkr.merkle_paths.__wrapped__
    )  # fmt: skip
    settings: dict[str, Any] = {
        "batch": 1, "commitment": "raw", "reduction": Reduction.DATA_PARALLEL, "threads": 1,
    }  # fmt: skip
    field = EXTENSIONS["m31.4"]
    prove, verify = bench_gkr.cases("cpu", field, "merkle-paths", [2], **settings)
    assert (prove.parameters["threads"], prove.operations) == (1, 2)
    verify.run()
    with pytest.raises(InputError, match=r"hash of the tree is over m31, not bn254\.fr"):
        list(bench_gkr.cases("cpu", NAMED["bn254.fr"], "merkle-paths", [2], **settings))


def test_keccak_over_m31_reports_field_products() -> None:
    device = open_device("cpu", threads=1)
    callables, _ = bench_gkr._products(device, "keccak", M31, 2)
    seconds = callables["products"]()
    assert isinstance(seconds, Seconds)
    # A busy machine takes longer, and no processor makes a hundred products a nanosecond.
    assert 22e6 / 100e9 < seconds < 100
    for where, circuit, field in (
        (device, "wide", M31), (device, "keccak", NAMED["bn254.fr"]),
        (EmulatedDevice(), "keccak", M31),
    ):  # fmt: skip
        peers, absent = bench_gkr._products(where, circuit, field, 2)
        assert not peers
        assert absent


@kernel
def forget_sums(
    k: Builder, n: U32, sums: Pointer[U64], table: Pointer[U32], *, modulus: Modulus
) -> None:
    """Store something other than the sums."""
    with k.if_(k.global_id() < n):
        table[k.global_id()] = k.constant(1, u32)


@pytest.mark.thorough
def test_study_variants_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants that disagree raise an error before anything is measured."""
    device, field = open_device("cpu"), EXTENSIONS["m31.3"]
    sizes = {"proofs": 2, "log_size": 4, "fused": 2, "log_gates": 5}
    cases = list(gkr_study.study_cases(device, field, **sizes))
    ways: dict[Any, list[Any]] = {}
    for case in cases:
        case.run()
        what = case.parameters["what"], case.parameters.get("circuit")
        ways.setdefault(what, []).append(case.parameters["way"])
    assert [len(names) for names in ways.values()] == [3, 4, 3, 3, 3, 3, 2]
    assert all(len(set(names)) == len(names) for names in ways.values())
    with pytest.raises(
        InputError, match=r"does not support bn254\.fr; choose a field such as m31\.3"
    ):
        next(gkr_study.study_cases(device, NAMED["bn254.fr"], **sizes))
    monkeypatch.setattr(gkr_study, "reduce_sums", forget_sums)
    with pytest.raises(DeviceError, match="tables of a layer by atomics differ"):
        list(gkr_study.study_cases(device, field, **sizes))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["field", "--field", "bn254.fx"], 3, "'bn254.fx' is not a field; choose one of bn254.fq"),
        (["field", "--device", "quantum"], 7, "quantum"),
        (["field", "--field", "bn254.fr", "--against", "nobody"], 3, "'nobody' is not a peer"),
        (["field", "--repeats", "0"], 2, "Usage"),
        (["gkr", "--circuit", "none"], 2, "there is no circuit 'none'"),
        (["gkr", "--field", "none"], 3, "'none' is not a field"),
        (["commitment", "--scheme", "kate"], 3, "the commitment must be raw, ligero"),
        (
            ["commitment", "--field", "bn254.fr", "--log2", "2"],
            3,
            "does not support tables over bn254.fr",
        ),
        (["inference", "--width", "8", "--width", "2"], 2, "--width needs at least three numbers"),
        (["inference", "--images", "0"], 2, "Usage"),
        (["inference", "--model", "nothing.gguf"], 3, "nothing.gguf"),
    ],
)
def test_invalid_arguments_are_rejected(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", *arguments]) == code
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.out == ""


def test_the_second_phase_of_a_ceremony(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "setup", "--power", "3", "--repeats", "1", "--seconds", "0", "--json", "-q"]
    assert entry.run(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == [
        "setup", "memory", "contribute", "verify",
    ]  # fmt: skip
    assert 30 < rows[1]["median"] < 3000
    assert rows[1]["unit"] == "MB"
    assert entry.run([*words, "--step", "verify", "--step", "setup"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == ["verify", "setup"]
    assert entry.run([*words, "--step", "nothing"]) == 2
    assert "--step must be one of setup, memory, contribute, verify" in capsys.readouterr().err
    assert all(row["parameters"]["power"] == 3 and row["median"] > 0 for row in rows)


@pytest.mark.thorough
@pytest.mark.node
def test_snarkjs_of_the_second_phase(capsys: pytest.CaptureFixture[str]) -> None:
    """snarkjs uses the powers and the key of the measured case."""
    program("snarkjs")
    words = ["bench", "setup", "--power", "2", "--repeats", "1", "--seconds", "0", "--json", "-q"]
    assert entry.run([*words, "--against", "snarkjs"]) == 0
    assert all(row["peer_median"] > 0 for row in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_every_subject_has_its_own_options_and_the_shared_ones(
    subject: Callable[..., None],
) -> None:
    plain = (
        "process", "queue", "submit", "witness", "setup", "solidity", "ceremony", "serve", "verify",
        "inference", "transformer", "attention_gradient",
    )  # fmt: skip
    kind = Settings if subject.__name__ in plain else StagedSettings
    options = list(inspect.signature(subject).parameters)[1:]
    shared = [field.name for field in fields(kind) if field.init]
    assert list(inspect.signature(subject_command(subject)).parameters) == options + shared
    assert {"device", "record"} <= set(shared)
    assert not set(options) & set(shared)
    assert ("plot" in shared) == (kind is StagedSettings)


@pytest.mark.thorough
def test_a_worker_of_the_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--constraints", "20", "--folder", str(tmp_path), "--lanes", "2", "--workers", "2"]
    trace = tmp_path / "trace.json"
    words = ["serve-pipeline", *sizes, "--repeats", "1", "--seconds", "0.1", "--json"]
    words += ["--trace", str(trace)]
    assert entry.run(["bench", *words]) == 0
    out, told = capsys.readouterr()
    rows = {row["parameters"]["what"]: row for row in json.loads(out)}
    # Each figure is told once it is measured: whoever ends a run early has those before.
    lines = told.splitlines()
    assert [line for line in lines if not line.startswith("measuring ")] == [
        f"{row['median']:.4g} {row['unit']}" for row in rows.values()
    ]  # fmt: skip
    assert set(rows) == {
        "prove in a loop", "prove many", "ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms",
        "gpu_total_ms", "worker", "busy", "gap, median", "together",
        "latency less stages, p50", "latency less stages, p99",
    }  # fmt: skip
    assert 0 < rows["busy"]["median"] <= 100
    assert rows["worker"]["parameters"]["workers"] == 2
    assert rows["worker"]["median"] > 0
    # A processor proves one at a time.
    assert rows["together"]["median"] == 1
    assert rows["latency less stages, p50"]["median"] <= rows["latency less stages, p99"]["median"]
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M"}
    # Which of the two workers took a job is chance.
    stages = {track.partition(" ")[2] for track in tracks if track.startswith("cpu#")}
    assert set(WorkerStage) <= stages
    # Keys and queue are gone.
    assert list(tmp_path.iterdir()) == [trace]


@pytest.mark.thorough
def test_the_server_of_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from quod.bench.service import submit

    monkeypatch.setattr(submit, "_JOBS", 64)
    monkeypatch.setattr(submit, "_PROOFS", 3)
    words = ["submit", "--folder", str(tmp_path), "--repeats", "1", "--json"]
    assert entry.run(["bench", *words]) == 0
    rows = [row["parameters"] | row for row in json.loads(capsys.readouterr().out)]
    assert {row["what"] for row in rows} == {
        "fdatasync of a page", "bare call", "SubmitProof", "SubmitProofs", "Prove, p50",
        "Prove, p99",
    }  # fmt: skip
    assert all(row["median"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_inference(capsys: pytest.CaptureFixture[str]) -> None:
    widths = [word for width in (9, 5, 4, 3) for word in ("--width", str(width))]
    assert entry.run(["bench", "inference", *widths, "--images", "3", *ONCE]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"] for row in rows] == [
        {"network": "9-5-4-3", "images": 3, "what": what} for what in ("prove", "proof", "verify")
    ]
    assert [row["unit"] for row in rows] == ["s", "bytes", "s"]
    assert rows[0]["code"]
    # What it proves is made again of the same numbers.
    generator = np.random.default_rng(3)
    prover = Prover("cpu", random_perceptron([9, 5, 4, 3], generator))
    proof = prover.prove(generator.integers(0, 128, (3, 9))).proof
    assert rows[1]["median"] == len(proof)


def test_transformer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "transformer", "--layers", "1", "--tokens", "5", *ONCE]
    assert entry.run(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == ["prompt", "next token"]


def test_first_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process runs the code that is named, with an empty cache."""

    def run(_option: str, code: str, *, cache: str) -> None:
        assert list(Path(cache).iterdir()) == []
        exec(code)
        ran.append(cache)

    ran: list[str] = []
    monkeypatch.setattr(process, "run_python", run)
    *_, first = inference.cases("cpu", None, [9, 5, 4, 3], 3, cold=True)
    assert first.parameters["what"] == "prove and verify, nothing compiled yet"
    first.run()
    assert len(ran) == 1
    assert not Path(ran[0]).exists()
    monkeypatch.setenv("QUOD_KERNELS", "somewhere")
    *_, first = inference.cases("cpu", None, [9, 5, 4, 3], 3, cold=True)
    assert first.parameters["what"] == "prove and verify, only shipped kernels compiled"


@pytest.mark.parametrize("type_name", one_and_others(["Q4_K", "Q8_0"]))
def test_quantised_weights(type_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "quant", "--type", type_name, "--size", "512", "--matrices", "3"]
    assert entry.run([*command, "--against", "copy", *ONCE]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["subject"], row["unit"]) == ("quant", "us/product")
    assert row["peer"].startswith("copy")
    assert row["parameters"]["MB"] == round(
        3 * 512 * 512 * (4.5 if type_name == "Q4_K" else 8.5) / 8e6, 1
    )
    # A copy of half a megabyte takes microseconds on a quiet machine and a hundred times that when
    # it is put off: the ratio shows units that were confused, not speed.
    assert 0.0001 < row["ratio"] < 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--type", "Q4"],
            "'Q4' is not a type of blocks; choose one of Q4_0, Q8_0, Q4_K, Q5_K, Q6_K",
        ),
        (["--size", "100"], "--size must be a multiple of 256 for Q4_K, not 100"),
        (["--size", "256", "--width", "3"], "width must be a power of two, not 3"),
        (["--size", "256", "--lanes", "0"], "lanes must be a whole number from 1 to 1024"),
    ],
)
def test_unknown_weight_types_are_rejected(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", "quant", *options, *ONCE]) == InputError.exit_code
    assert message in capsys.readouterr().err
