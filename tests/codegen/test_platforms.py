"""CPUs other than this machine's: older x86-64, Arm, and code for AVX-512."""

from __future__ import annotations

import os
import platform
import re
import secrets
import struct
from pathlib import Path

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.curve.named import CURVES
from quod.device import CpuDevice, devices, host, open_device
from quod.device.cache.cache import CompileCache
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.processor import HostProcessor, host_processor
from quod.errors import DeviceError, KernelError
from quod.field import kernels as field_kernels
from quod.field.moduli import BLS12_381_FQ, BN254_FR, Modulus
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, KernelDefinition, Machine, Pointer, kernel
from quod.kernel.examples import histogram, reduce_sum, saxpy
from tests.device.processors import ARM, pretend_to_run_on
from tests.kernel.machines import EIGHT, ONE

APPLE = HostProcessor("apple-m1", frozenset({"neon"}), "", "arm64-apple-darwin")
ELF_MACHINES = {0xB7: "aarch64", 0x3E: "x86-64"}

needs_x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"),
    reason="runs code for older x86-64 processors",
)
needs_ifma = pytest.mark.device("ifma")


def x86(name: str, features: str) -> HostProcessor:
    enabled = frozenset(part[1:] for part in features.split(",") if part.startswith("+"))
    triple = host_processor().triple
    return HostProcessor(name, enabled, features, triple)


FIELD_KERNELS = {
    "multiply": (field_kernels.field_multiply, {"spec": BLS12_381_FQ}),
    "inverse": (field_kernels.field_inverse, {"spec": BN254_FR}),
    "multiply Fq2": (field_kernels.field_multiply, {"spec": CURVES["bls12_381"].tower.fq2}),
    "histogram": (histogram, {}),
    "reduce_sum": (reduce_sum, {}),
    "saxpy": (saxpy, {}),
}


@pytest.mark.crossed("processor", "machine", "name")
@pytest.mark.parametrize("processor", [ARM, APPLE], ids=["linux", "macos"])
@pytest.mark.parametrize("machine", [ONE, EIGHT], ids=["one lane", "eight lanes"])
@pytest.mark.parametrize("name", FIELD_KERNELS)
def test_kernels_compile_for_arm(name: str, machine: Machine, processor: HostProcessor) -> None:
    definition, static = FIELD_KERNELS[name]
    text = llvm.emit(definition.trace(machine, **static), machine, triple=processor.triple)
    assert "x86" not in text
    code = llvm_jit.compile_to_object(text, processor=processor)
    if processor is ARM:
        assert code[:4] == b"\x7fELF"
        assert ELF_MACHINES[struct.unpack_from("<H", code, 18)[0]] == "aarch64"
    else:
        assert code[:4] == b"\xcf\xfa\xed\xfe"  # Mach-O, 64 bits
        assert struct.unpack_from("<I", code, 4)[0] == 0x0100000C  # arm64


@pytest.mark.parametrize(
    ("modulus", "limbs"), [(BLS12_381_FQ, 6), (BN254_FR, 4)], ids=["bls12_381.fq", "bn254.fr"]
)
def test_the_product_on_arm_is_chains_of_carries(
    modulus: Modulus, limbs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two halves of each of limbs**2 products, as many for the reduction, and quotients.

    Each half is added once, by an instruction that takes and leaves a carry.
    """
    pretend_to_run_on(ARM, monkeypatch)
    machine = CpuDevice(strategy="scalar").machine(1)
    text = llvm.emit(
        field_kernels.field_multiply.trace(machine, spec=modulus), machine, triple=ARM.triple
    )
    listing = llvm_jit.assembly(text, processor=ARM)
    assert not re.findall(r"\b__\w+", listing)  # no calls of a run-time library
    product = listing[listing.index("sum_of_1_products") :].split("\tret", 1)[0]
    assert len(re.findall(r"\bumulh\b", product)) == 2 * limbs**2
    assert len(re.findall(r"\bmul\b", product)) == 2 * limbs**2 + limbs
    additions = len(re.findall(r"\b(?:adds|adcs|adc|cinc|cset|cmn)\b", product))
    assert additions <= 4 * limbs**2 + 2 * limbs


@pytest.mark.parametrize(
    ("modulus", "limbs"), [(BLS12_381_FQ, 14), (BN254_FR, 9)], ids=["bls12_381.fq", "bn254.fr"]
)
def test_the_product_in_neon_multiplies_words(modulus: Modulus, limbs: int) -> None:
    """Limbs**2 products, as many for the reduction, and a quotient, one instruction for 2 lanes."""
    machine = Machine("llvm", 4, frozenset({"u64", "vector_lanes", "word_products"}))
    traced = field_kernels.field_multiply.trace(machine, spec=modulus)
    listing = llvm_jit.assembly(llvm.emit(traced, machine, triple=ARM.triple), processor=ARM)
    products = listing[listing.index("products") :].split("\tret", 1)[0]
    count = len(re.findall(r"\bum(?:ul|la)l2?\b", products)) / 2
    assert 2 * limbs**2 - limbs < count <= 2 * limbs**2 + limbs
    assert not re.findall(r"\bumulh\b", products)


@pytest.mark.parametrize(
    ("name", "strategies"),
    [
        ("neoverse-n1", ("neon", "scalar")),
        ("neoverse-v1", ("scalar", "neon")),
        ("apple-m1", ("scalar", "neon")),
        ("generic", ("scalar", "neon")),
    ],
)
def test_strategies_of_arm(
    name: str, strategies: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host, "processor_description", lambda: os.uname().machine)
    pretend_to_run_on(HostProcessor(name, ARM.features, ARM.description, ARM.triple), monkeypatch)
    rows = {row.name: row for row in devices() if row.kind == "cpu"}
    assert list(rows) == ["cpu", *(f"cpu:{strategy}" for strategy in strategies)]
    assert all(row.description.startswith(f"{name} (") for row in rows.values())
    assert rows["cpu:neon"].description.endswith("four lanes of 29-bit limbs (NEON)")
    assert CpuDevice(cache=CompileCache(tmp_path), threads=1).strategy == strategies[0]
    neon = CpuDevice(strategy="neon", cache=CompileCache(tmp_path), threads=1)
    assert (neon.lanes, neon.machine(4).has("word_products")) == (4, True)
    # Any 64-bit Arm converts between f16 and f32.
    assert neon.machine(4).has("f16")
    with pytest.raises(DeviceError, match=f"no AVX2; use the strategy '{strategies[0]}'"):
        open_device("cpu:avx2")


def test_other_processors_have_no_neon() -> None:
    if host_processor().has_neon:
        pytest.skip("this processor has NEON")
    with pytest.raises(DeviceError, match="this CPU has no NEON; use the strategy"):
        open_device("cpu:neon")


def multiply_agrees(device: CpuDevice, modulus: Modulus, lanes: int) -> None:
    count = 33
    a, b = ([secrets.randbelow(modulus.value) for _ in range(count)] for _ in range(2))
    a[:3], b[:3] = [0, modulus.value - 1, modulus.value - 1], [5, modulus.value - 1, 1]

    def words(values: list[int]) -> np.ndarray:
        data = b"".join(modulus.to_montgomery(x).to_bytes(modulus.bytes, "little") for x in values)
        return np.frombuffer(data, np.uint32).reshape(count, modulus.words)

    out = np.zeros((count, modulus.words), np.uint32)
    compiled = device.compile(field_kernels.field_multiply, lanes=lanes, spec=modulus)
    device.launch(compiled, -(-count // lanes), count, words(a), words(b), out)
    expected = [x * y % modulus.value for x, y in zip(a, b, strict=True)]
    assert out.tobytes() == words(expected).tobytes()


@needs_x86
@pytest.mark.parametrize(
    "processor",
    [
        pytest.param(("x86-64", "+sse2"), id="the first x86-64", marks=pytest.mark.thorough),
        pytest.param(("haswell", "+avx2,+bmi,+bmi2,+fma,-avx512f"), id="AVX2"),
    ],
)
def test_a_host_without_avx512(
    processor: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not {"avx2", "bmi2"} <= host_processor().features and processor[0] == "haswell":
        pytest.skip("this processor has no AVX2")
    simulated = x86(*processor)
    pretend_to_run_on(simulated, monkeypatch)
    device = CpuDevice(cache=CompileCache(tmp_path), threads=1)
    has_avx2 = processor[0] == "haswell"
    strategy, lanes_of_fields = ("avx2", 4) if has_avx2 else ("scalar", 1)
    assert (device.strategy, device.lanes) == (strategy, lanes_of_fields)
    with pytest.raises(DeviceError, match=f"no AVX-512 IFMA; use the strategy '{strategy}'"):
        CpuDevice(strategy="ifma")
    with pytest.raises(DeviceError, match="no AVX-512 IFMA"):
        open_device("cpu:ifma")
    names = ["cpu", "cpu:avx2", "cpu:scalar"] if has_avx2 else ["cpu", "cpu:scalar"]
    assert [row.name for row in devices() if row.kind == "cpu"] == names
    for lanes in (1, 4, 8):
        multiply_agrees(device, BLS12_381_FQ, lanes)
        multiply_agrees(device, BN254_FR, lanes)
        text = device.emit(field_kernels.field_multiply, lanes=lanes, spec=BLS12_381_FQ)
        listing = llvm_jit.assembly(text)
        assert "%zmm" not in listing
        assert ("%ymm" in listing) == (has_avx2 and lanes > 1)


@kernel
def powers(
    k: Builder, a: Pointer[U64], out: Pointer[U64], *, modulus: Modulus, factors: int
) -> None:
    """The product of an element and `factors` copies of another."""
    f, i = prime_field(k, modulus), k.global_id()
    x, y = f.load(a, 2 * i), f.load(a, 2 * i + 1)
    for _ in range(factors):
        y = y * x
    f.store(out, i, y)


def listing_of(definition: KernelDefinition, strategy: str, **static: object) -> str:
    return llvm_jit.assembly(CpuDevice(strategy=strategy).emit(definition, **static))


def multiplications(listing: str) -> int:
    return len(re.findall(r"vpmadd52[lh]uq", listing))


def spilled_vectors(listing: str) -> int:
    return len(re.findall(r"vmov\w+\s+%zmm\d+, -?\d*\(%rsp\)", listing))


@needs_ifma
@pytest.mark.parametrize(
    ("modulus", "limbs"), [(BLS12_381_FQ, 8), (BN254_FR, 5)], ids=["bls12_381.fq", "bn254.fr"]
)
def test_ifma_product_has_the_expected_instruction_count(modulus: Modulus, limbs: int) -> None:
    """Two halves of each of limbs**2 products, and as many for the reduction, and the quotients."""
    single, double = (listing_of(powers, "ifma", modulus=modulus, factors=n) for n in (1, 2))
    # The product is a function that is called: a second one adds a call and no more code.
    assert abs(multiplications(double) - multiplications(single)) <= limbs
    count = multiplications(single)
    assert 4 * limbs**2 - 2 * limbs <= count <= 4 * limbs**2 + 4 * limbs
    assert spilled_vectors(single) <= limbs
    assert not re.findall(r"vpmuludq|vpmullq|vpgather|vpscatter", single)


@pytest.mark.device("avx2")
@pytest.mark.parametrize(
    ("modulus", "limbs"), [(BLS12_381_FQ, 14), (BN254_FR, 9)], ids=["bls12_381.fq", "bn254.fr"]
)
def test_the_product_in_avx2_multiplies_words(modulus: Modulus, limbs: int) -> None:
    """Limbs**2 products, as many for the reduction, and a quotient, each one instruction."""
    single, double = (listing_of(powers, "avx2", modulus=modulus, factors=n) for n in (1, 2))
    counts = [len(re.findall(r"vpmulu?dq", listing)) for listing in (single, double)]
    # A load and a store multiply a few limbs too, by the difference of the Montgomery radices. For
    # some processors LLVM computes a few products by constants with shifts.
    assert counts[0] == counts[1]
    assert 2 * limbs * (limbs - 1) < counts[0] <= 2 * limbs**2 + 4 * limbs
    assert not re.findall(r"vpgather|%zmm", single)
    # With AVX-512 LLVM multiplies by two constants so.
    assert len(re.findall(r"vpmullq", single)) <= 2


@needs_ifma
def test_ifma_ops_are_emulated_without_the_feature() -> None:
    for strategy in ("ifma", "scalar"):
        multiply_agrees(CpuDevice(strategy=strategy, threads=1), BLS12_381_FQ, 8)


@pytest.mark.parametrize(
    "text", ["nonsense", "define void @f() { ret i32 1 }", "define void @f() { br label %gone }"]
)
def test_llvm_errors_are_reported(text: str) -> None:
    with pytest.raises(KernelError, match="LLVM refuses the emitted code: ") as caught:
        llvm_jit.compile_to_object(text)
    assert "\n" not in str(caught.value)


def test_the_calling_convention_depends_on_the_platform() -> None:
    definition, static = FIELD_KERNELS["multiply"]
    traced = definition.trace(EIGHT, **static)
    for triple, convention in (
        ("x86_64-pc-linux-gnu", "x86_regcallcc"),
        ("x86_64-apple-darwin", "x86_regcallcc"),
        ("aarch64-unknown-linux-gnu", "fastcc"),
        ("riscv64-unknown-linux-gnu", "fastcc"),
        ("", "fastcc"),
    ):
        text = llvm.emit(traced, EIGHT, triple=triple)
        lines = re.findall(r"^define internal (\w+)|= call (\w+cc)", text, re.MULTILINE)
        assert {first or second for first, second in lines} == {convention}
