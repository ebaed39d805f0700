"""Proofs of every complete set match the reference model; wrong ones are rejected."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named import CURVES
from quod.device.cpu.device import CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.field.array import integers_to_words
from quod.formats import Witness, Zkey
from quod.groth16 import Proof, ProvingKey, VerifyingKey, generate_key, keys
from quod.groth16.host import key as host
from quod.groth16.prover import blinding
from quod.msm import msm
from tests.groth16.circuits import CIRCOM_SETS
from tests.groth16.conftest import Made
from tests.groth16.test_setup import TRIVIAL
from tests.reference import circom, groth16
from tests.support.node import run_program
from tests.support.thorough import one_and_others

Make = Callable[[str], Made]

SEED = 12
"""Seed of the proofs of complete sets, on every device."""

SEEN_BY_SNARKJS = ("bn254-poseidon", "quod-bls12_381-pow5bits")
"""The sets, one a curve, whose proofs snarkjs verifies in every run."""


def plain(proof: circom.Proof | Proof) -> tuple[object, ...]:
    return proof.a, proof.b, proof.c


# --- complete sets


@functools.cache
def of_the_processor(folder: Path) -> str:
    """The proof of a set with SEED, made on the processor."""
    key = ProvingKey.from_zkey(folder / "circuit.zkey")
    return key.prove(folder / "witness.wtns", seed=SEED)[0].to_json()


@pytest.mark.fixtures
@pytest.mark.parametrize("name", CIRCOM_SETS)
def test_every_circom_set_proves(
    shared_fixtures: Path, device: AnyDevice, pairing_device: AnyDevice, name: str
) -> None:
    folder = shared_fixtures / "circom" / name
    key = ProvingKey.from_zkey(folder / "circuit.zkey", device=device)
    proof, public = key.prove(folder / "witness.wtns", seed=SEED)
    # Where there is no snarkjs beside a GPU, this ties its proofs to those that snarkjs takes.
    assert proof.to_json() == of_the_processor(folder)
    assert public == circom.read_public(folder / "public.json")
    published = VerifyingKey.from_json(
        folder / "verification_key.json", device=pairing_device, allow_insecure=True
    )
    assert published.verify(public, proof)
    if public:
        r = CURVES[key.curve].fr.value
        assert not published.verify([(public[0] + 1) % r, *public[1:]], proof)


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["bn254-multiplier2", "quod-bls12_381-mulchain"])
def test_reference_verifier_accepts_the_proof(
    shared_fixtures: Path, device: AnyDevice, name: str
) -> None:
    folder = shared_fixtures / "circom" / name
    key = ProvingKey.from_zkey(folder / "circuit.zkey", device=device)
    proof, public = key.prove(folder / "witness.wtns", self_check=False)
    published = circom.read_verification_key(folder / "verification_key.json")
    assert groth16.verify(published, public, circom.Proof(proof.a, proof.b, proof.c))


@pytest.mark.fixtures
@pytest.mark.node
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SEEN_BY_SNARKJS else pytest.mark.thorough)
     for name in CIRCOM_SETS],
)  # fmt: skip
def test_snarkjs_accepts_the_proof(
    shared_fixtures: Path, device: AnyDevice, tmp_path: Path, name: str
) -> None:
    folder = shared_fixtures / "circom" / name
    key = ProvingKey.from_zkey(folder / "circuit.zkey", device=device)
    proof, public = key.prove(folder / "witness.wtns", seed=SEED)
    (tmp_path / "proof.json").write_text(proof.to_json())
    (tmp_path / "public.json").write_text(json.dumps([str(value) for value in public]))
    vkey = folder / "verification_key.json"
    done = run_program("snarkjs", "groth16", "verify", vkey, "public.json", "proof.json",
                       directory=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK" in done.stdout


@pytest.mark.thorough
@pytest.mark.node
def test_snarkjs_accepts_a_proof_under_a_quod_key(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bls12_381")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns)
    (tmp_path / "proof.json").write_text(proof.to_json())
    (tmp_path / "public.json").write_text(json.dumps([str(value) for value in public]))
    (tmp_path / "vkey.json").write_text(key.verifying_key.to_json())
    done = run_program("snarkjs", "groth16", "verify", "vkey.json", "public.json", "proof.json",
                       directory=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# --- against the reference model


@pytest.mark.crossed("device", "curve")
@pytest.mark.parametrize("curve", one_and_others(CURVES))
def test_proof_matches_the_reference_model(
    circuit_files: Make, device: AnyDevice, curve: str
) -> None:
    files = circuit_files(curve)
    key = ProvingKey.from_zkey(files.zkey, device=device)
    witness = Witness.open(files.wtns)
    r, s = blinding(key.zkey.fr, 99, key.digest, witness.values)
    expected, public = groth16.prove(
        circom.read_zkey(files.zkey), circom.read_wtns(files.wtns), r, s
    )  # fmt: skip
    proof, inputs = key.prove(witness, seed=99)
    assert plain(proof) == plain(expected)
    assert inputs == public == files.circuit.public


@pytest.mark.thorough
@pytest.mark.fixtures
@pytest.mark.parametrize(
    "name", ["bn254-poseidon", pytest.param("bls12_381-poseidon", marks=pytest.mark.thorough)]
)
def test_circom_proof_matches_the_reference_model(
    shared_fixtures: Path, device: AnyDevice, name: str
) -> None:
    zkey, wtns = (shared_fixtures / "circom" / name / file
                  for file in ("circuit.zkey", "witness.wtns"))  # fmt: skip
    key = ProvingKey.from_zkey(zkey, device=device)
    r, s = blinding(key.zkey.fr, 7, key.digest, Witness.open(wtns).values)
    expected, _ = groth16.prove(circom.read_zkey(zkey), circom.read_wtns(wtns), r, s)
    assert plain(key.prove(wtns, seed=7)[0]) == plain(expected)


@pytest.mark.thorough
@pytest.mark.fixtures
def test_keys_over_bls12_381_need_the_roots_of_snarkjs(shared_fixtures: Path) -> None:
    folder = shared_fixtures / "circom" / "quod-bls12_381-mulchain"
    key, witness = (circom.read_zkey(folder / "circuit.zkey"),
                    circom.read_wtns(folder / "witness.wtns"))  # fmt: skip
    proving_key = ProvingKey.from_zkey(folder / "circuit.zkey")
    r, s = blinding(
        proving_key.zkey.fr, 0, proving_key.digest, Witness.open(folder / "witness.wtns").values
    )
    wrong, public = groth16.prove(key, witness, r, s, family="arkworks")
    proof, _ = proving_key.prove(folder / "witness.wtns", seed=0)
    assert proving_key.verifying_key.verify(public, proof)
    assert not proving_key.verifying_key.verify(
        public, Proof(proving_key.curve, wrong.a, wrong.b, wrong.c)
    )
    assert proof.c != wrong.c
    assert (proof.a, proof.b) == (wrong.a, wrong.b)


@pytest.mark.parametrize("name", TRIVIAL)
def test_trivial_circuits(device: AnyDevice, name: str, tmp_path: Path) -> None:
    circuit = TRIVIAL[name]
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 3)
    wtns = circuit.write_wtns(tmp_path / "c.wtns")
    proof, public = ProvingKey.from_zkey(tmp_path / "c.zkey", device=device).prove(wtns)
    assert public == circuit.public
    verifying_key = groth16.verifying_key(circom.read_zkey(tmp_path / "c.zkey"))
    assert groth16.verify(verifying_key, public, circom.Proof(proof.a, proof.b, proof.c))


# --- blinding


def test_only_a_seed_makes_proofs_deterministic(circuit_files: Make, device: AnyDevice) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, device=device)
    first, _ = key.prove(files.wtns, seed=1)
    assert key.prove(files.wtns, seed=1)[0].to_json() == first.to_json()
    assert key.prove(files.wtns, seed=2)[0].a != first.a
    second, third = (key.prove(files.wtns)[0] for _ in range(2))
    for name in ("a", "b", "c"):
        assert len({getattr(proof, name) for proof in (first, second, third)}) == 3, name


@pytest.mark.device("vectors")
@pytest.mark.parametrize("curve", one_and_others(CURVES))
def test_all_strategies_give_one_proof(circuit_files: Make, curve: str) -> None:
    files = circuit_files(curve)
    texts = set()
    for strategy in host_processor().strategies:
        key = ProvingKey.from_zkey(files.zkey, device=f"cpu:{strategy}")
        texts.add(key.prove(files.wtns, seed=5)[0].to_json())
    assert len(texts) == 1


def test_blinding_depends_on_everything() -> None:
    fr, other = CURVES["bn254"].fr, CURVES["bls12_381"].fr
    witness, changed = (integers_to_words(fr, [1, value]) for value in (5, 6))
    drawn = [
        blinding(fr, 1, b"key", witness),
        blinding(fr, 2, b"key", witness),
        blinding(fr, -1, b"key", witness),
        blinding(fr, 1, b"key", changed),
        blinding(other, 1, b"key", witness),
        blinding(fr, 1, b"another", witness),
        blinding(fr, None, b"key", witness),
        blinding(fr, None, b"key", witness),
    ]
    values = [value for pair in drawn for value in pair]
    assert len(set(values)) == len(values)
    assert blinding(fr, 1, b"key", witness) == drawn[0]
    assert all(0 <= value < fr.value for pair in drawn if pair != drawn[4] for value in pair)


def test_the_derivation_of_the_blinding_is_fixed() -> None:
    """The derivation in the docstring of `blinding`, computed without Quod."""
    import hashlib

    fr = CURVES["bn254"].fr
    digest = hashlib.blake2b((1).to_bytes(32, "little") + (5).to_bytes(32, "little")).hexdigest()
    expected = tuple(
        int(hashlib.sha512(line.encode()).hexdigest(), 16) % fr.value
        for line in (f"quod groth16 blinding 2: bn254.fr {x} 42 6b6579 {digest}" for x in "rs")
    )
    assert blinding(fr, 42, b"key", integers_to_words(fr, [1, 5])) == expected


def test_blinding_differs_between_keys(circuit_files: Make, tmp_path: Path) -> None:
    """With equal blinding, two proofs would confirm a guessed witness."""
    files = circuit_files("bn254")
    generate_key(files.r1cs, tmp_path / "other.zkey", 2)
    keys = [ProvingKey.from_zkey(path) for path in (files.zkey, tmp_path / "other.zkey")]
    witness = Witness.open(files.wtns).values
    drawn = {blinding(key.zkey.fr, 1, key.digest, witness) for key in keys}
    assert len(drawn) == 2


def test_key_digest_covers_its_points(circuit_files: Make, tmp_path: Path) -> None:
    """BLAKE2b of the curve, alpha, beta, gamma, delta and IC as the file has them."""
    import hashlib

    files = circuit_files("bn254")
    data, at, sections = files.zkey.read_bytes(), 12, {}
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 12], "little")
        sections[int.from_bytes(data[at : at + 4], "little")] = data[at + 12 : at + 12 + size]
        at += 12 + size
    header = sections[2][-(3 * 64 + 3 * 128) :]
    expected = hashlib.blake2b(b"bn254" + header + sections[3]).digest()
    assert ProvingKey.from_zkey(files.zkey).digest == expected
    # What else is in the file does not count.
    changed = damaged(files, tmp_path, SECTIONS["h"], 0)
    assert ProvingKey.from_zkey(changed).digest == expected


# --- what must not be proved


def test_a_witness_that_violates_the_circuit(
    circuit_files: Make, device: AnyDevice, tmp_path: Path
) -> None:
    files = circuit_files("bn254")
    r = CURVES["bn254"].fr.value
    wrong = list(files.circuit.witness)
    wrong[7] = (wrong[7] + 1) % r
    assert not files.circuit.satisfied(wrong)
    path = files.circuit.write_wtns(tmp_path / "wrong.wtns", wrong)
    key = ProvingKey.from_zkey(files.zkey, device=device, allow_insecure=True)
    with pytest.raises(VerificationError) as caught:
        key.prove(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: the proof does not verify")
    assert "does not satisfy the circuit" in message
    assert "\n" not in message
    proof, public = key.prove(path, self_check=False)
    assert not key.verifying_key.verify(public, proof)


def test_a_witness_of_another_circuit(circuit_files: Make, shared_fixtures: Path) -> None:
    key = ProvingKey.from_zkey(circuit_files("bn254").zkey)
    other = shared_fixtures / "circom" / "quod-bn254-mulchain" / "witness.wtns"
    with pytest.raises(MismatchError, match=r"19 values and the key .* is for 22") as caught:
        key.prove(other)
    assert caught.value.path == str(other)


def test_a_witness_of_another_curve(circuit_files: Make) -> None:
    key = ProvingKey.from_zkey(circuit_files("bn254").zkey)
    with pytest.raises(MismatchError, match=r"over bls12_381 and the key .* over bn254"):
        key.prove(circuit_files("bls12_381").wtns)


def test_a_damaged_witness(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bn254")
    data = bytearray(files.wtns.read_bytes())
    data[-32:] = CURVES["bn254"].fr.value.to_bytes(32, "little")
    (tmp_path / "bad.wtns").write_bytes(data)
    with pytest.raises(InputError, match="value 21 is not below the prime"):
        ProvingKey.from_zkey(files.zkey).prove(tmp_path / "bad.wtns")


# --- damaged keys

SECTIONS = {"a": 5, "b_g1": 6, "b_g2": 7, "c": 8, "h": 9}


def damaged(files: Made, folder: Path, section: int, offset: int, mask: int = 1) -> Path:
    """A copy of the key with a bit changed at `offset` in a section."""
    path = folder / "damaged.zkey"
    shutil.copy(files.zkey, path)
    data = bytearray(path.read_bytes())
    at = 12
    while int.from_bytes(data[at : at + 4], "little") != section:
        at += 12 + int.from_bytes(data[at + 4 : at + 12], "little")
    data[at + 12 + offset] ^= mask
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("curve", "name"), [*(("bn254", name) for name in SECTIONS), ("bls12_381", "b_g2")]
)
def test_a_key_with_a_point_off_the_curve(
    circuit_files: Make, device: AnyDevice, curve: str, name: str, tmp_path: Path
) -> None:
    files = circuit_files(curve)
    path = damaged(files, tmp_path, SECTIONS[name], 2 * CURVES[curve].fq.bytes * 3 + 5)
    key = ProvingKey.from_zkey(path, device=device)
    with pytest.raises(VerificationError):
        key.prove(files.wtns)
    with pytest.raises(InputError, match=rf"point \d of {name} is not on the curve") as caught:
        key.check()
    assert caught.value.path == str(path)


@pytest.mark.parametrize("name", ["alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1",
                                  "delta_g2"])  # fmt: skip
def test_a_key_with_a_header_point_off_the_curve(
    circuit_files: Make, name: str, tmp_path: Path
) -> None:
    files = circuit_files("bn254")
    # Two primes of 32 bytes after their lengths, three counts, then the points.
    offsets = {"alpha_g1": 84, "beta_g1": 148, "beta_g2": 212, "gamma_g2": 340, "delta_g1": 468,
               "delta_g2": 532}  # fmt: skip
    key = ProvingKey.from_zkey(damaged(files, tmp_path, 2, offsets[name]))
    with pytest.raises(InputError, match=f"^[^ ]*: {name} is not on the curve"):
        key.check()
    with pytest.raises((VerificationError, InputError)):
        key.prove(files.wtns)


def test_a_key_with_a_coefficient_changed(
    circuit_files: Make, device: AnyDevice, tmp_path: Path
) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(damaged(files, tmp_path, 4, 4 + 44 * 8 + 12), device=device)
    key.check()
    with pytest.raises(VerificationError, match=r"the key \(.*\) is damaged"):
        key.prove(files.wtns)


@pytest.mark.parametrize("fails", [False, True], ids=["alone", "with another failure"])
def test_a_coordinate_that_is_not_below_the_modulus(
    circuit_files: Make, device: AnyDevice, tmp_path: Path, fails: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Coordinates are checked while the rest of the key is opened; their error comes first."""
    files = circuit_files("bn254")
    path = damaged(files, tmp_path, 9, 31, mask=0xC0)

    def fail(_: Zkey) -> bytes:
        raise MemoryError

    if fails:
        monkeypatch.setattr(keys, "_digest", fail)
    with pytest.raises(InputError, match="not below the modulus of bn254") as caught:
        ProvingKey.from_zkey(path, device=device)
    assert caught.value.section == "9 (h)"


def test_a_good_key_passes_the_check(circuit_files: Make, device: AnyDevice) -> None:
    timeline = Timeline()
    ProvingKey.from_zkey(circuit_files("bls12_377").zkey, device=device).check(timeline=timeline)
    assert "check h" in [row.name for row in timeline.table()]


@pytest.mark.parametrize("padding", [1, 4])
def test_sections_may_be_unaligned(
    circuit_files: Make, device: AnyDevice, padding: int, tmp_path: Path
) -> None:
    """A contribution with a name of odd length, in a section before the others."""
    files = circuit_files("bn254")
    sections = circom.sections(files.zkey.read_bytes())
    contribution = bytes(10 * 32 + 64 + 4) + padding.to_bytes(4, "little") + bytes(padding)
    sections[10] = sections[10][:64] + (1).to_bytes(4, "little") + contribution
    moved = bytearray(b"zkey" + (1).to_bytes(4, "little") + len(sections).to_bytes(4, "little"))
    for number in (10, *range(1, 10)):
        section = sections[number]
        moved += number.to_bytes(4, "little") + len(section).to_bytes(8, "little") + section
    (tmp_path / "moved.zkey").write_bytes(moved)
    key = ProvingKey.from_zkey(tmp_path / "moved.zkey", device=device)
    key.check()
    expected = ProvingKey.from_zkey(files.zkey, device=device).prove(files.wtns, seed=3)
    assert key.prove(files.wtns, seed=3) == expected


# --- how it is used


def test_the_key_describes_the_circuit(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    assert (key.curve, key.public, key.constraints) == ("bn254", 2, len(files.circuit.a))
    assert key.variables == len(files.circuit.witness)
    assert key.verifying_key is key.verifying_key
    assert key.verifying_key.public == 2


def test_stages_are_reported(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    timeline = Timeline()
    key = ProvingKey.from_zkey(files.zkey, timeline=timeline)
    key.prove(files.wtns, timeline=timeline)
    rows = {row.name: row for row in timeline.table()}
    for name in ("map", "check coordinates", "matrices", "bases", "witness", "quotient",
                 "A·w, B·w", "A·w ∘ B·w", "transforms",
                 "MSM A", "MSM B1", "MSM B2", "MSM C", "MSM H", "fixed terms",
                 "verifying key", "blind", "check A and B", "assemble",
                 "self-check"):  # fmt: skip
        assert name in rows, name
        assert not rows[name].failed
    assert rows["A·w, B·w"].modmuls == len(Zkey.open(files.zkey).coefficients)


def test_proofs_may_share_a_key_and_a_witness_may_be_open(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    opened = Witness.open(files.wtns)
    proofs = [key.prove(opened)[0] for _ in range(3)]
    assert all(key.verifying_key.verify(files.circuit.public, proof) for proof in proofs)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError("no room")], ids=repr)
def test_failure_of_one_sum_cancels_the_others(
    circuit_files: Make, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    expected = key.prove(files.wtns, seed=1)
    calls: list[object] = []

    def fail(*arguments: object, **options: object) -> None:
        calls.append(arguments[1])
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(host, "msm", fail)
        with pytest.raises(type(failure)):
            key.prove(files.wtns)
    assert 1 <= len(calls) <= 5
    threads = [thread.name for thread in threading.enumerate()]
    assert not [name for name in threads if name.startswith("quod-proof")]
    assert key.prove(files.wtns, seed=1) == expected


def test_a_failure_stops_the_launches_of_other_parts(
    circuit_files: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sum runs forever, and the next one fails."""
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    expected = key.prove(files.wtns, seed=1)
    first = threading.Lock()
    stopped: list[str] = []

    def endless(*arguments: Any, **options: Any) -> None:
        if not first.acquire(blocking=False):
            raise MemoryError("no room")
        try:
            while True:
                msm(*arguments, **options)
        except DeviceError as error:
            stopped.append(str(error))
            raise

    with monkeypatch.context() as patch:
        patch.setattr(host, "msm", endless)
        with pytest.raises(MemoryError, match="no room"):
            key.prove(files.wtns)
    assert len(stopped) == 1
    assert stopped[0].endswith("was stopped")
    assert key.prove(files.wtns, seed=1) == expected


def test_memory_budget_is_checked_first(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    device = CpuDevice()
    key = ProvingKey.from_zkey(files.zkey, device=device)
    device.memory_budget = key.peak_bytes - 1
    with pytest.raises(DeviceError, match=r"a proof with .* would take .*; the budget is "):
        key.prove(files.wtns)
    device.memory_budget = key.peak_bytes
    key.prove(files.wtns)


def test_threads_may_share_a_key(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    expected = key.prove(files.wtns, seed=1)
    with ThreadPoolExecutor(4) as pool:
        proofs = list(pool.map(lambda _: key.prove(files.wtns, seed=1), range(8)))
    assert proofs == [expected] * 8


def test_json_round_trip(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bls12_381")
    proof, _ = ProvingKey.from_zkey(files.zkey).prove(files.wtns)
    (tmp_path / "proof.json").write_text(proof.to_json())
    assert Proof.from_json(tmp_path / "proof.json") == proof
    assert Proof.from_json(tmp_path / "proof.json", curve="bls12_381") == proof
    with pytest.raises(MismatchError):
        Proof.from_json(tmp_path / "proof.json", curve="bn254")
    without = re.sub(r',\s*"curve": "bls12381"', "", proof.to_json())
    assert "curve" not in without
    (tmp_path / "rapidsnark.json").write_text(without)
    assert Proof.from_json(tmp_path / "rapidsnark.json", curve="bls12_381") == proof


def exit_code_of_child(work: Callable[[], object], *, seconds: int) -> int:
    """0 if a forked child does the work in time."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(seconds)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_key_that_was_used_before_a_fork(circuit_files: Callable[[str], Made]) -> None:
    """The parent's self-check threads do not exist in the child."""
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    key.prove(files.wtns, seed=1)
    assert exit_code_of_child(lambda: key.prove(files.wtns, seed=1), seconds=300) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_in_the_middle_of_a_proof(circuit_files: Callable[[str], Made]) -> None:
    """The child does not wait for the thread that had its turn in the parent."""
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    resident = key.resident
    assert isinstance(resident, host.HostKey)
    with resident.computing():
        assert exit_code_of_child(lambda: key.prove(files.wtns, seed=1), seconds=120) == 0


def test_invalid_seeds_are_rejected(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    asks: list[Callable[[Any], object]] = [
        lambda seed: key.prove(files.wtns, seed=seed),
        lambda seed: list(key.prove_many([files.wtns], seed=seed)),
        lambda seed: generate_key(files.r1cs, tmp_path / "c.zkey", seed),
    ]
    for ask, seed in itertools.product(asks, (-1, True, 1.5, "7", b"7", [7])):
        with pytest.raises(InputError, match="a seed must be an int of 0 or more, not"):
            ask(seed)
    assert not list(tmp_path.iterdir())
