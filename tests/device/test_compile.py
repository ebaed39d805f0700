"""Compiling through the cache: cold, warm, damaged, refused, and what keys depend on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import CpuDevice
from quod.device.cache.cache import CompileCache
from quod.device.cache.compiled_code import trace_key
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.processor import host_processor, toolchain
from quod.device.runtime.kernel_table import KernelTable
from quod.errors import KernelError
from quod.field import kernels as field_kernels
from quod.field.moduli import BN254_FR
from quod.field.spec import Extension
from quod.frozen import fields_of, replace
from quod.kernel import U32, Builder, KernelDefinition, Pointer, kernel, pointer, u32
from quod.tensor import attention_decode
from tests.device import kernels
from tests.device.processors import pretend_to_run_on

SPEC = BN254_FR


def device_with(folder: Path, **options: Any) -> CpuDevice:
    return CpuDevice(cache=CompileCache(folder), threads=1, **options)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compiled, and the kernels that were traced as ``trace NAME``."""
    seen: list[str] = []
    compile_to_object, trace = llvm_jit.compile_to_object, KernelDefinition.trace

    def noting_compile(text: str, **options: Any) -> bytes:
        seen.append(text)
        return compile_to_object(text, **options)

    def noting_trace(self: KernelDefinition, *arguments: Any, **static: Any) -> Any:
        seen.append(f"trace {self.name}")
        return trace(self, *arguments, **static)

    monkeypatch.setattr(llvm_jit, "compile_to_object", noting_compile)
    monkeypatch.setattr(KernelDefinition, "trace", noting_trace)
    return seen


def multiply_works(device: CpuDevice) -> bool:
    a = BN254_FR.to_montgomery(3).to_bytes(32, "little")
    words = np.frombuffer(a, np.uint32)
    out = np.zeros(8, np.uint32)
    device.launch(device.compile(field_kernels.field_multiply, spec=SPEC), 1, 1, words, words, out)
    return BN254_FR.from_montgomery(int.from_bytes(out.tobytes(), "little")) == 9


def test_one_device_compiles_a_kernel_once(tmp_path: Path, compilations: list[str]) -> None:
    device = device_with(tmp_path)
    first = device.compile(kernels.scale)
    assert device.compile(kernels.scale) is first
    assert len(compilations) == 2
    assert device.compile(kernels.scale, lanes=1) is not None
    a, b = (device.compile(kernels.raise_to, amount=n) for n in (1, 2))
    assert a is not b
    # Equal and of equal hash, but not the same.
    assert device.compile(kernels.raise_to, amount=True) is not a


def test_second_device_reuses_traces_and_code_of_package_kernels(
    tmp_path: Path, compilations: list[str]
) -> None:
    assert multiply_works(device_with(tmp_path))
    assert compilations[0] == "trace field_multiply"
    assert len(compilations) == 2
    assert multiply_works(device_with(tmp_path))
    assert len(compilations) == 2


def test_user_kernels_are_retraced_but_not_recompiled(
    tmp_path: Path, compilations: list[str]
) -> None:
    for _ in range(2):
        device_with(tmp_path).compile(kernels.scale)
    assert [text.startswith("trace") for text in compilations] == [True, False, True]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "garbage"])
def test_a_damaged_entry_is_rebuilt(tmp_path: Path, damage: str, compilations: list[str]) -> None:
    assert multiply_works(device_with(tmp_path))
    for path in entries(tmp_path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 16
        damaged = {
            "flip": data, "truncate": data[: len(data) // 2], "empty": b"", "garbage": b"x" * 99
        }[damage]  # fmt: skip
        path.write_bytes(damaged)
    assert multiply_works(device_with(tmp_path))
    assert len(compilations) == 4
    assert multiply_works(device_with(tmp_path))
    assert len(compilations) == 4


@pytest.mark.parametrize(
    "content", [b"", b"\x05\0\0\0{}", b"\xff\xff\xff\xff", b"\x02\0\0\0{}", b"\x02\0\0\0[]"]
)
def test_a_sound_entry_without_code_in_it_is_rebuilt(
    tmp_path: Path, content: bytes, compilations: list[str]
) -> None:
    assert multiply_works(device_with(tmp_path))
    cache = CompileCache(tmp_path)
    for path in entries(tmp_path):
        cache.put(path.name, content)
    assert multiply_works(device_with(tmp_path))
    assert len(compilations) == 4


@pytest.mark.parametrize(
    ("linked", "wrong"),
    [(True, (b"multiply\0", b"multiplx\0")), (False, (b'"offset": ', b'"offset":-'))],
)
def test_code_that_cannot_be_loaded_is_rebuilt(
    linked: bool, wrong: tuple[bytes, bytes], tmp_path: Path, compilations: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if linked:
        monkeypatch.setattr(cpu_compiler, "arrange", lambda *_: None)
    assert multiply_works(device_with(tmp_path))
    cache = CompileCache(tmp_path)
    (code_path,) = (path for path in entries(tmp_path) if path.stat().st_size > 1000)
    content = cache.get(code_path.name)
    assert content is not None
    assert wrong[0] in content
    cache.put(code_path.name, content.replace(*wrong))
    assert multiply_works(device_with(tmp_path))
    assert len(compilations) == 4


@pytest.mark.filterwarnings("ignore::quod.device.cache.cache.CacheWarning")
def test_an_unusable_folder_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert multiply_works(device_with(tmp_path / "file"))
    assert multiply_works(device_with(tmp_path / "file" / "below"))


@kernel
def wrong(k: Builder, out: Pointer[U32]) -> None:
    """Is refused while it is traced."""
    if k.global_id() == 0:
        out[0] = 1


def test_failed_kernel_leaves_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_with(tmp_path)
    for _ in range(2):
        with pytest.raises(KernelError, match=r"test_compile\.py"):
            device.compile(wrong)
    assert entries(tmp_path) == []
    monkeypatch.setattr("quod.codegen.llvm.emitter.emit", lambda *_, **__: "define void @scale( {")
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            device.compile(kernels.scale)
    assert len(entries(tmp_path)) == 2
    message = str(caught.value)
    text = Path(message.rpartition("the text is in ")[2])
    assert text in entries(tmp_path)
    assert text.parent.name == "refused"
    assert text.name.startswith("scale-")
    assert text.read_text() == "define void @scale( {"
    assert message.startswith(f"kernel scale ({kernels.scale.location}): LLVM refuses")
    assert "\n" not in message
    monkeypatch.undo()
    assert device.compile(kernels.scale).name == "scale"


def test_unhashable_static_arguments(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"static argument of kernel raise_to cannot be hashed"):
        device_with(tmp_path).compile(kernels.raise_to, amount=[1])


def test_threads_compile_each_kernel_once_without_blocking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_with(tmp_path)
    quick = device.compile(kernels.scale)
    held, started = threading.Event(), threading.Event()
    build, built = cpu_compiler.build, []

    def slow(definition: KernelDefinition, *arguments: Any) -> Any:
        built.append(definition.name)
        started.set()
        held.wait(60)
        return build(definition, *arguments)

    monkeypatch.setattr(cpu_compiler, "build", slow)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(device.compile, kernels.halve) for _ in range(4)]
        assert started.wait(60)
        assert device.compile(kernels.scale) is quick
        held.set()
        assert len({id(future.result()) for future in waiting}) == 1
    assert built == ["halve"]


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not(tmp_path: Path) -> None:
    table: KernelTable[str] = KernelTable()
    started, go = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        go.wait(60)
        return "parent's"

    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(table.get, kernels.scale, 1, {}, slow)
        assert started.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            built = table.get(kernels.scale, 1, {}, lambda: "child's")
            os._exit(0 if built == "child's" else 1)
        try:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            go.set()
        assert building.result() == "parent's"


# --- what the keys depend on


def key(
    definition: KernelDefinition = field_kernels.field_add,
    lanes: int = 1,
    **static: Any,
) -> str | None:
    machine = CpuDevice(strategy="scalar").machine(lanes)
    return trace_key(definition, machine, static, toolchain())


def test_trace_keys_depend_on_kernel_machine_and_options() -> None:
    keys = {
        key(spec=SPEC),
        key(lanes=8, spec=SPEC),
        key(field_kernels.field_subtract, spec=SPEC),
        key(spec=Extension.binomial("bn254.fr2", BN254_FR, 2, 5)),
        key(spec=SPEC, other=1),
        key(spec=SPEC, other="1"),
        key(),
    }
    assert None not in keys
    assert len(keys) == 7
    assert key(spec=SPEC) == key(spec=BN254_FR)


def test_trace_keys_distinguish_kernels_with_equal_names() -> None:
    definition = field_kernels.field_add
    location = definition.location
    place = Path(location.file)
    elsewhere = [
        type(location)(str(place.parent.parent / "msm" / place.name), location.line),
        type(location)(location.file, location.line + 1),
    ]
    definitions = [
        KernelDefinition(definition.name, definition.function, definition.parameters, at)
        for at in (location, *elsewhere)
    ]
    assert len({key(each) for each in definitions}) == 3


def test_no_trace_key_if_the_text_is_not_determined() -> None:
    assert key(kernels.scale) is None  # not of the package
    assert key(spec=object()) is None  # shown by its address
    assert key(spec=(SPEC, len, lambda: 0)) is None
    amount = 3

    def body(k: Builder, a: Pointer[U32]) -> None:
        a[0] = amount

    location = field_kernels.field_add.location
    captured = kernel(body)
    assert key(KernelDefinition("body", captured.function, captured.parameters, location)) is None


def test_the_toolchain_and_the_processor_are_part_of_the_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = key(spec=SPEC)
    host = host_processor()
    for field in ("name", "description", "triple", "llvm"):
        pretend_to_run_on(replace(host, **{field: "other"}), monkeypatch)
        assert key(spec=SPEC) != before
    monkeypatch.undo()
    assert key(spec=SPEC) == before


def test_parameters_are_part_of_the_keys() -> None:
    """Kernels of equal name and function differ in the memory they take."""
    function = field_kernels.field_add
    declared = dict(function.parameters)
    last = next(reversed(declared))
    others = [
        declared | {"more": pointer(u32)},
        {name: declared[name] for name in declared if name != last},
        declared | {last: pointer(u32)}, dict(reversed(declared.items())),
    ]  # fmt: skip
    keys = {key(function, spec=SPEC)}
    for parameters in others:
        other = KernelDefinition(
            function.name, function.function, parameters, function.location
        )  # fmt: skip
        keys.add(key(other, spec=SPEC))
    assert len(keys) == len(others) + 1


def test_cache_distinguishes_kernel_parameters(tmp_path: Path) -> None:
    """Attention partials are combined with and without log sums."""
    random = np.random.default_rng(1)
    q, k, v = (random.normal(size=(1, n, 40, 8)).astype(np.float32) for n in (2, 1, 1))
    q = q[:, :, :1].copy()
    plain = []
    for sums in (np.zeros((1, 2, 1), np.float32), None, np.zeros((1, 2, 1), np.float32)):
        with CpuDevice(cache=CompileCache(tmp_path)) as device:
            plain.append(attention_decode(device, q, k, v, parts=2, log_sums=sums))
            assert sums is None or sums.all()
    assert plain[0].tobytes() == plain[1].tobytes() == plain[2].tobytes()


def test_every_field_of_a_machine_is_part_of_the_keys() -> None:
    machine = CpuDevice(strategy="scalar").machine(1)
    definition, tools = field_kernels.field_add, toolchain()
    keys = {trace_key(definition, machine, {"spec": SPEC}, tools)}
    for name, value in fields_of(machine).items():
        addition = {"watched_loops"} if isinstance(value, frozenset) else type(value)("1")
        other = value | addition if isinstance(value, frozenset) else value + addition
        changed = replace(machine, **{name: other})
        keys.add(trace_key(definition, changed, {"spec": SPEC}, tools))
    assert len(keys) == len(fields_of(machine)) + 1


def test_trace_keys_are_the_same_in_every_process() -> None:
    """The iteration order of a set does not matter."""
    source = (
        "from quod.device.cache.compiled_code import trace_key\n"
        "from quod.field.kernels import field_add\n"
        "from quod.kernel.machine import Machine\n"
        "features = frozenset({'u64', 'subgroup', 'carry', 'carry32', 'ifma52'})\n"
        "print(trace_key(field_add, Machine('llvm', 8, features), {}, ''))\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", source], env=dict(os.environ, PYTHONHASHSEED=seed),
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(seen) == 1


# Modules are loaded before: how long that takes is not about kernels.
STARTING = """
import time
import numpy
import quod.device.cpu.backend
from quod.device import open_device
from quod.field import kernels
from quod.field.moduli import BN254_FR
begin = time.process_time()
device = open_device()
for name in ("field_add", "field_subtract", "field_multiply", "field_square", "field_sum"):
    device.compile(getattr(kernels, name), spec=BN254_FR)
print(time.process_time() - begin)
"""


@pytest.mark.thorough
def test_cached_kernels_load_in_milliseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path))

    def seconds() -> float:
        done = subprocess.run([sys.executable, "-c", STARTING], check=True, capture_output=True)
        return float(done.stdout)

    cold, warm = seconds(), min(seconds() for _ in range(3))
    # About 5 ms: nothing is compiled.
    assert warm < 0.2
    assert warm < cold / 4
