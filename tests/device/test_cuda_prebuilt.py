"""Kernels that are shipped: a device finds them, and compiles in the place of what is damaged."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import sys
import types
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quod
from quod.cli.kernel import build as kernel_build
from quod.cli.kernel.wheel import wheel_of
from quod.device.cache import sources
from quod.device.cache.cache import CacheWarning, CompileCache
from quod.device.cache.prebuilt import Entry, PrebuiltKernels, _checksum
from quod.device.cuda import compiler as cuda_compiler
from quod.device.cuda.device import CudaDevice
from quod.kernel.examples import vector_add

pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")

from tests.device.fake_cuda import FakeCuda

ARCH = "sm_90a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose cubins the simulated driver takes."""
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "builder"))
    monkeypatch.setattr(kernel_build, "assembler_version", lambda: "simulated 1")
    monkeypatch.setattr(kernel_build, "assemble", lambda text, arch: (b"CUBIN" + text.encode(), ""))
    kernel_build.build(tmp_path / "kernels", [ARCH, "sm_80"], ["examples.vector_add"])
    return tmp_path / "kernels"


def opened(folder: Path | None, cache: Path, **options: Any) -> tuple[CudaDevice, FakeCuda]:
    driver = FakeCuda(**options)
    prebuilt = None if folder is None else PrebuiltKernels(folder, ARCH)
    return CudaDevice(bindings=driver, cache=CompileCache(cache), prebuilt=prebuilt), driver


def assembled(device: CudaDevice, driver: FakeCuda) -> int:
    """Count the driver's assemblies for a kernel that was then run with the right results."""
    a = np.arange(5, dtype=np.uint32)
    out = np.zeros(5, np.uint32)
    device.launch(device.compile(vector_add), 1, 5, a, a, out)
    assert out.tolist() == (2 * a).tolist()
    device.close()
    return driver.calls["cuLinkCreate"]


def manifest_of(folder: Path) -> Path:
    return folder / ARCH / "manifest.json"


def cubin_of(folder: Path) -> Path:
    (cubin,) = (folder / ARCH).glob("*.cubin")
    return cubin


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_entry(path: Path, **fields: Any) -> None:
    """Change an entry and its checksum, which has no key."""
    (entry,) = json.loads(path.read_text())["kernels"]
    row = {name: value for name, value in entry.items() if name != "seal"} | fields
    change(path, kernels=[row | {"seal": _checksum(row)}])


def never(*_: Any) -> Any:
    raise AssertionError("traced")


def test_prebuilt_kernels_are_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_compiler, "emit", never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assembled(*opened(folder, tmp_path / "cache")) == 0


def test_the_folder_of_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOD_KERNELS", str(folder))
    assert assembled(*opened(None, tmp_path / "cache")) == 0
    monkeypatch.delenv("QUOD_KERNELS")
    assert assembled(*opened(None, tmp_path / "cache")) == 1


@pytest.fixture
def package(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a wheel's package on the search path, installed with any umask and by links."""
    content = wheel_of(folder, "1.2.3")
    assert content == wheel_of(folder, "1.2.3")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delenv("QUOD_KERNELS", raising=False)
    package = tmp_path / "site" / "quod_kernels"
    for path in (tmp_path / "site").rglob("*"):
        path.chmod(0o775 if path.is_dir() else 0o664)
    cubin = cubin_of(package)
    cubin.rename(tmp_path / "stored")
    cubin.symlink_to(tmp_path / "stored")
    return package


def test_installed_package_is_used_and_not_imported(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_compiler, "emit", never)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assembled(*opened(None, tmp_path / "cache")) == 0
    assert "quod_kernels" not in sys.modules


def test_stale_package_is_used_for_equal_texts_without_a_warning(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "digest", lambda: "other")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assembled(*opened(None, tmp_path / "cache")) == 0
        cubin_of(package).rename(package / ARCH / f"{'0' * 64}.cubin")
        change_entry(manifest_of(package), text="0" * 64)
        assert assembled(*opened(None, tmp_path / "other")) == 1


def test_package_without_the_architecture_is_ignored(package: Path, tmp_path: Path) -> None:
    (package / ARCH).rename(package / "sm_70")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assembled(*opened(None, tmp_path / "cache")) == 1


def test_the_environment_is_preferred_to_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOD_KERNELS", str(tmp_path / "none"))
    with pytest.warns(CacheWarning, match="No such file"):
        assert assembled(*opened(None, tmp_path / "cache")) == 1


def test_filled_cache_does_not_look_for_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / ARCH).rename(package / "later")
    assert assembled(*opened(None, tmp_path / "cache")) == 1
    (package / "later").rename(package / ARCH)
    monkeypatch.setattr("quod.device.cache.prebuilt._package_folder", never)
    assert assembled(*opened(None, tmp_path / "cache")) == 0


def test_module_in_the_place_of_the_package_is_ignored(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.rename(tmp_path / "away")
    package.with_suffix(".py").write_text("raise AssertionError")
    importlib.invalidate_caches()
    assert assembled(*opened(None, tmp_path / "cache")) == 1
    # A module that was put there without a specification.
    monkeypatch.setitem(sys.modules, "quod_kernels", types.ModuleType("quod_kernels"))
    assert assembled(*opened(None, tmp_path / "other")) == 1


def test_warning_names_the_variable_only_if_it_is_set(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate(manifest_of(folder))
    monkeypatch.setenv("QUOD_KERNELS", str(folder))
    with pytest.warns(CacheWarning, match=r"`quod kernel build`, or unset QUOD_KERNELS$"):
        assert assembled(*opened(None, tmp_path / "cache")) == 1
    monkeypatch.delenv("QUOD_KERNELS")
    with pytest.warns(CacheWarning, match=r"`quod kernel build`$"):
        assert assembled(*opened(folder, tmp_path / "other")) == 1


def test_prebuilt_kernel_with_equal_text_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "digest", lambda: "other")
    message = rf"are used only where the text is the same: Quod {re.escape(quod.__version__)} built"
    with pytest.warns(CacheWarning, match=message):
        assert assembled(*opened(folder, tmp_path / "cache")) == 0
    # It is in the cache now, and need not be traced.
    monkeypatch.setattr(cuda_compiler, "emit", never)
    assert assembled(*opened(tmp_path / "none", tmp_path / "cache")) == 0


def test_another_text_is_compiled(folder: Path, tmp_path: Path) -> None:
    device, driver = opened(folder, tmp_path / "cache")
    a = np.zeros(5, np.uint32)
    device.launch(device.compile(vector_add, lanes=64), 1, 5, a, a, a)
    assert driver.calls["cuLinkCreate"] == 1


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def open_to_others(path: Path) -> None:
    path.chmod(0o777)


def link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


DAMAGES: dict[str, Any] = {
    "a bit of the code": lambda folder: flip(cubin_of(folder), 40),
    "the end of the code": lambda folder: truncate(cubin_of(folder)),
    "longer code": lambda folder: cubin_of(folder).write_bytes(cubin_of(folder).read_bytes() * 2),
    "no code": lambda folder: cubin_of(folder).unlink(),
    "empty code": lambda folder: cubin_of(folder).write_bytes(b""),
    "no manifest": lambda folder: manifest_of(folder).unlink(),
    "half a manifest": lambda folder: truncate(manifest_of(folder)),
    "text": lambda folder: manifest_of(folder).write_text("kernels"),
    "a list": lambda folder: manifest_of(folder).write_text("[]"),
    "nested": lambda folder: manifest_of(folder).write_text("[" * 100_000),
    "no UTF-8": lambda folder: manifest_of(folder).write_bytes(b"\xff\xfe{}"),
    "another format": lambda folder: change(manifest_of(folder), format="quod-kernels-0"),
    "another architecture": lambda folder: change(manifest_of(folder), arch="sm_80"),
    "no entries": lambda folder: change(manifest_of(folder), kernels={}),
    "an entry with another checksum": lambda folder: change(
        manifest_of(folder),
        kernels=[
            entry | {"size": 1} for entry in json.loads(manifest_of(folder).read_text())["kernels"]
        ],
    ),
    "an entry that is none": lambda folder: change(manifest_of(folder), kernels=[3]),
    "an empty entry": lambda folder: change(manifest_of(folder), kernels=[{}]),
    "a trace key that is a list": lambda folder: change_entry(manifest_of(folder), trace=[1]),
    "a digest that is a number": lambda folder: change_entry(manifest_of(folder), text=5),
    "no folder": lambda folder: (folder / ARCH).rename(folder / "other"),
    "code for others to write": lambda folder: open_to_others(cubin_of(folder)),
    "a manifest for others to write": lambda folder: open_to_others(manifest_of(folder)),
    "a folder for others to write": lambda folder: open_to_others(folder / ARCH),
    "a folder above for others to write": lambda folder: open_to_others(folder),
    "code by a link": lambda folder: link(cubin_of(folder)),
    "a manifest by a link": lambda folder: link(manifest_of(folder)),
    "a pipe": lambda folder: (manifest_of(folder).unlink(), os.mkfifo(manifest_of(folder))),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_prebuilt_kernels_are_compiled(
    folder: Path, tmp_path: Path, damage: Any, request: pytest.FixtureRequest
) -> None:
    damage(folder)
    # Libraries raise the limit beyond the size of the C stack: then the parser ends the process.
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(10**6)
    with pytest.warns(CacheWarning, match=r"kernels for sm_90a in .* are compiled instead") as told:
        assert assembled(*opened(folder, tmp_path / "cache")) == 1
    assert len(told) == 1


PACKAGE_DAMAGES = [
    "a bit of the code", "empty code", "no code", "half a manifest", "no manifest", "nested",
    "an entry with another checksum", "an empty entry", "another architecture", "another format",
]  # fmt: skip


@pytest.mark.parametrize("damage", PACKAGE_DAMAGES)
def test_damaged_package_is_reported(package: Path, tmp_path: Path, damage: str) -> None:
    DAMAGES[damage](package)
    advice = r"are compiled instead.*install the package quod-kernels again$"
    with pytest.warns(CacheWarning, match=advice) as reports:
        assert assembled(*opened(None, tmp_path / "cache")) == 1
    assert len(reports) == 1


@pytest.mark.parametrize("folder_of", [".", "kernels"])
def test_a_relative_folder_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CacheWarning, match="not an absolute path"):
        assert assembled(*opened(Path(folder_of), tmp_path / "cache")) == 1


def test_invalid_manifest_fields_are_rejected(folder: Path) -> None:
    (good,) = json.loads(manifest_of(folder).read_text())["kernels"]
    assert Entry.parse(good).document() == good
    with pytest.raises(ValueError, match=r"an entry of manifest\.json does not match its checksum"):
        Entry.parse(good | {"size": good["size"] + 1})
    with pytest.raises(ValueError, match=r"manifest\.json has an invalid entry"):
        Entry.parse(3)
    for key, value in good.items():
        for other in (None, [], f"{value}x", -1, {}):
            if other != value:
                with pytest.raises(ValueError):
                    Entry.parse(good | {key: other})
        with pytest.raises(ValueError):
            Entry.parse({name: content for name, content in good.items() if name != key})


def test_code_that_the_driver_refuses_is_compiled_once(folder: Path, tmp_path: Path) -> None:
    device, driver = opened(folder, tmp_path / "cache")
    driver.fail("cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU")
    with pytest.warns(CacheWarning, match=r"the driver refuses vector_add \(.*NO_BINARY_FOR_GPU"):
        assert assembled(device, driver) == 1
    # The next process finds that in its cache.
    assert assembled(*opened(folder, tmp_path / "cache")) == 0
