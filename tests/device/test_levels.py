"""Kernels of the CPU compiled ahead of time: a level's code is loaded where the CPU has it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.cli.kernel import build as kernel_build
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.operations import normalise
from quod.curve.weierstrass.point_kernels import curve_normalise
from quod.device.cache import sources
from quod.device.cache.cache import CacheWarning, CompileCache
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu import levels
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.device import CpuDevice
from quod.device.cpu.level_device import LevelDevice
from quod.device.cpu.levels import LEVELS, level_of
from quod.device.cpu.processor import HostProcessor, host_processor
from quod.device.cuda.planning import PlannedKernel
from quod.frozen import replace
from quod.groth16.gpu import first_proofs
from tests.device.processors import ARM

V3, IFMA = LEVELS["x86-64-v3"], LEVELS["x86-64-v4-ifma"]


def processor(features: frozenset[str]) -> HostProcessor:
    return replace(V3.target, features=features)


def test_levels_by_features() -> None:
    assert level_of(processor(V3.features | {"adx"})) is V3
    assert level_of(processor(IFMA.features)) is IFMA
    assert level_of(processor(IFMA.features - {"avx512ifma"})) is V3
    assert level_of(processor(V3.features - {"bmi2"})) is None
    assert level_of(ARM) is None


def test_host_kernels_of_each_level() -> None:
    for level, lanes, count, expected in (
        (V3, 4, 11, {"pairing_final", "miller_loops", "curve_multiply", "curve_normalise"}),
        (IFMA, 8, 9, {"pairing_final_by_lanes", "miller_loops_by_lanes", "subgroup_multiples"}),
    ):
        kernels = first_proofs.host_kernels(LevelDevice(level), ["bn254"])
        assert len(kernels) == count
        assert {kernel.lanes for kernel in kernels} == {1, lanes}
        assert expected <= {kernel.definition.name for kernel in kernels}


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("compiled")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The kernel that normalises points, for the level of this CPU."""
    level = level_of(host_processor())
    if level is None:
        pytest.skip("the CPU is of no level with prebuilt kernels")

    def few(*_: Any) -> list[PlannedKernel]:
        return [PlannedKernel(curve_normalise, 1, {"group": GROUPS["bn254.g1"]})]

    monkeypatch.setattr(first_proofs, "host_kernels", few)
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "builder"))
    # Code for CPUs needs no assembler of GPUs.
    monkeypatch.setattr(kernel_build, "assembler_version", never)
    built = kernel_build.build(tmp_path / "kernels", ["native"], [], first_proofs=True)
    assert list(built.toolchains) == [level.name]
    assert built.toolchains[level.name].startswith("LLVM ")
    monkeypatch.setenv("QUOD_KERNELS", str(tmp_path / "kernels"))
    levels._prebuilt.cache_clear()
    yield tmp_path / "kernels" / level.name
    levels._prebuilt.cache_clear()


def normalised(cache: Path) -> Any:
    """Normalise one point by a device with a cache of its own."""
    group = GROUPS["bn254.g1"]
    extended = np.zeros((1, 4 * group.field.words), np.uint32)
    extended[0, :: group.field.words] = 1
    return normalise(CpuDevice(threads=1, cache=CompileCache(cache)), group, extended)


def test_installed_code_is_loaded_without_tracing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(cpu_compiler, "KernelText", never)
        point = normalised(tmp_path / "cache")
    monkeypatch.delenv("QUOD_KERNELS")
    levels._prebuilt.cache_clear()
    assert (normalised(tmp_path / "other") == point).all()


def test_stale_code_is_used_for_an_equal_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "digest", lambda: "other")
    monkeypatch.setattr(llvm_jit, "compile_to_object", never)
    with pytest.warns(CacheWarning, match="are used only where the text is the same"):
        normalised(tmp_path / "cache")
    # It is in the cache now.
    monkeypatch.setattr(cpu_compiler, "KernelText", never)
    normalised(tmp_path / "cache")


@pytest.mark.parametrize("damage", ["a bit", "no file", "a manifest of another architecture"])
def test_damaged_code_is_compiled(folder: Path, tmp_path: Path, damage: str) -> None:
    (image,) = folder.glob("*.image")
    if damage == "a bit":
        image.write_bytes(image.read_bytes()[:-1] + b"\1")
    elif damage == "no file":
        image.unlink()
    else:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | {"arch": "sm_90a"}))
    with pytest.warns(CacheWarning, match="are compiled instead"):
        normalised(tmp_path / "cache")


def test_folder_without_the_level_is_no_error(folder: Path, tmp_path: Path) -> None:
    folder.rename(folder.with_name("sm_90a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        normalised(tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "No such file"),
        ("kernels", "not an absolute path"),
        (__file__, "Not a "),
    ],
)
def test_folder_that_does_not_exist_is_reported(
    name: str, message: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in QUOD_KERNELS does not pass in silence, unlike a folder for GPUs only."""
    monkeypatch.setenv("QUOD_KERNELS", name)
    with pytest.warns(CacheWarning, match=f"{message}.*or unset QUOD_KERNELS"):
        normalised(tmp_path / "cache")


def test_device_knows_installed_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CpuDevice(threads=1, cache=CompileCache(tmp_path / "cache"))
    group = GROUPS["bn254.g1"]
    assert device.has(curve_normalise, lanes=1, group=group)
    assert not device.has(curve_normalise, lanes=1, group=GROUPS["bn254.g2"])
    monkeypatch.delenv("QUOD_KERNELS")
    assert not device.has(curve_normalise, lanes=1, group=group)
