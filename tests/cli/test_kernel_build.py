"""`quod kernel build`: files and messages, and no partial output."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import quod
from quod.catalogue import kernels
from quod.cli import entry
from quod.cli.kernel import build as kernel_build
from quod.codegen import emit
from quod.codegen.ptx import emitter
from quod.codegen.ptx.assembler import AssemblerMissing, AssemblyError, assembler_version
from quod.codegen.ptx.machine import architecture_name, ptx_machine
from quod.device.cache import sources
from quod.device.cache.compiled_code import text_digest
from quod.device.cache.prebuilt import Entry, PrebuiltKernels
from quod.errors import InputError, KernelError, OutputError
from quod.groth16.gpu import first_proofs
from quod.kernel import U32, Builder, Pointer, kernel, registry
from quod.kernel.examples import saxpy
from quod.kernel.ir import types
from tests.device.kernels import in_roles

try:
    assembler_version()
except AssemblerMissing as error:
    pytest.skip(str(error), allow_module_level=True)

BUILD = ["kernel", "build", "--quiet"]
LARGE = "tests.large_shared"


@kernel
def large_shared(k: Builder, out: Pointer[U32]) -> None:
    """Takes 120 KiB of shared memory, which data centres have and desks have not."""
    memory = k.shared(types.u32, 30 << 10)
    memory[k.local_id()] = k.local_id()
    k.barrier()
    out[k.global_id()] = memory[k.local_id()]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def large() -> Iterator[None]:
    registry.register(LARGE, large_shared)
    yield
    del registry._registered[LARGE]


def test_cubins_and_their_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "kernels"
    words = ["--kernel", "examples.s?xpy", "--kernel", "examples.v*", "--arch", "sm_120"]
    assert entry.run([*BUILD, *words, "--arch", "sm_80", "-o", str(out)]) == 0
    assert "nvJitLink" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["sm_120", "sm_80"]
    for arch in ("sm_80", "sm_120"):
        manifest = json.loads((out / arch / "manifest.json").read_text())
        assert (manifest["arch"], manifest["sources"]) == (arch, sources.digest())
        assert manifest["toolchain"].startswith("nvJitLink 1")
        assert [row["kernel"] for row in manifest["kernels"]] == [
            "examples.saxpy", "examples.vector_add",
        ]  # fmt: skip
        text = emit(saxpy, "ptx", ptx_machine(arch=arch))
        first_row = manifest["kernels"][0]
        assert first_row["text"] == text_digest(text)
        code = (out / arch / f"{first_row['text']}.cubin").read_bytes()
        assert code[:4] == b"\x7fELF"
        assert hashlib.sha256(code).hexdigest() == first_row["code"]
        assert len(list((out / arch).iterdir())) == 3
        # What a device finds.
        shipped = PrebuiltKernels(out, arch)
        taken = shipped.find_untraced(saxpy, ptx_machine(arch=arch), {})
        assert taken is not None
        assert taken == shipped.find_text(taken.facts.digest)
        assert taken.code == code
        assert taken.facts.entry == "quod_saxpy"
        assert shipped.find_untraced(saxpy, ptx_machine(64, arch), {}) is None
    assert not [path for path in tmp_path.iterdir() if path.name not in ("kernels", "cache")]


def test_setmaxnreg_kernels_are_shipped_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linkers drop setmaxnreg, so that the driver gets the PTX text."""
    row = registry.RegisteredKernel("tests.in_roles", in_roles, {})
    monkeypatch.setitem(registry._registered, row.name, row)
    out = tmp_path / "kernels"
    words = ["--kernel", "tests.in_roles", "--arch", "sm_90a", "--arch", "sm_80", "-o", str(out)]
    assert entry.run([*BUILD, *words]) == 0
    for arch, moves in (("sm_90a", True), ("sm_80", False)):
        machine = ptx_machine(384, arch)
        text = emitter.emit(in_roles.trace(machine), machine)
        compiled = PrebuiltKernels(out, arch).find_text(text_digest(text))
        assert compiled is not None
        code = compiled.code
        assert (code == text.encode() + b"\0") == moves
        assert code.startswith(b"\x7fELF") != moves


def test_output_is_writable_by_the_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kernel_build.build(tmp_path / "k", ["sm_80"], ["examples.saxpy"])
    finally:
        os.umask(before)
    for path in [tmp_path / "k", *(tmp_path / "k").rglob("*")]:
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@pytest.mark.usefixtures("large")
def test_failed_kernels_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--kernel", LARGE, "--kernel", "examples.saxpy", "--arch", "sm_80", "--arch", "sm_120"]
    out = tmp_path / "kernels"
    assert entry.run([*BUILD, *words, "-o", str(out)]) == KernelError.exit_code
    shown = capsys.readouterr()
    assert "1 of 4 requested kernels were not built" in shown.err
    (line,) = [line for line in shown.out.splitlines() if line.startswith(LARGE)]
    assert "sm_120" in line
    assert "shared memory" in line
    assert len(list((out / "sm_80").iterdir())) == 3
    assert len(list((out / "sm_120").iterdir())) == 2
    # The other one's code is in the cache.
    assert entry.run([*BUILD, *words, "-o", str(out) + "2", "--json"]) == KernelError.exit_code
    report = json.loads(capsys.readouterr().out)
    assert [(row["kernel"], row["arch"]) for row in report["skipped"]] == [(LARGE, "sm_120")]
    assert [Entry.parse(row).kernel for row in report["made"]["sm_120"]] == ["examples.saxpy"]


def test_no_folder_if_no_kernel_was_built(tmp_path: Path) -> None:
    told = r"no kernel was built: msm\.accumulate\S+: is for CPUs only"
    with pytest.raises(KernelError, match=told):
        kernel_build.build(tmp_path / "k", ["sm_80"], ["msm.accumulate[bn254.g1]"])
    assert not (tmp_path / "k").exists()


def test_built_architectures_match_device_capabilities() -> None:
    capabilities = ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
    assert tuple(architecture_name(*each) for each in capabilities) == kernel_build.ARCHITECTURES


def test_all_skips_cpu_only_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [row for row in kernels() if row.name in ("examples.saxpy", "msm.accumulate[bn254.g1]")]
    monkeypatch.setattr(kernel_build, "kernels", lambda: few)
    built = kernel_build.build(tmp_path / "k", ["sm_80"], [])
    assert [entry.kernel for entry in built.made["sm_80"]] == ["examples.saxpy"]
    assert not built.skipped


def test_assembler_errors_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, arch: str) -> tuple[bytes, str]:
        if arch == "sm_80":
            raise AssemblyError("line 3; no")
        return b"code", ""

    monkeypatch.setattr(kernel_build, "assemble", refuse)
    built = kernel_build.build(tmp_path / "k", ["sm_80", "sm_90a"], ["examples.saxpy"])
    assert [(skip.arch, skip.reason) for skip in built.skipped] == [("sm_80", "line 3; no")]
    assert [path.name for path in (tmp_path / "k").iterdir()] == ["sm_90a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "sm_91"], "there is no architecture sm_91"),
        (["--arch", "avx2"], "CPU: native, x86-64-v4-ifma, x86-64-v3"),
        (["--kernel", "examples.saxpi"], "did you mean examples.saxpy"),
        (["--kernel", "nothing.*"], "no registered kernel matches nothing.*"),
        (["--kernel", "file.py:name"], "no registered kernel matches file.py:name"),
    ],
)
def test_unknown_names_are_rejected(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*BUILD, *options, "-o", str(tmp_path / "k")]) == InputError.exit_code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    assert entry.run([*BUILD, "-o", str(tmp_path / "k")]) == AssemblerMissing.exit_code
    assert "pip install '.[build]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_existing_output_is_not_replaced(tmp_path: Path, there: str) -> None:
    out = tmp_path / "k"
    if there == "folder":
        out.mkdir()
    elif there == "file":
        out.write_text("mine")
    else:
        out.symlink_to("nowhere")
    with pytest.raises(OutputError, match="already exists"):
        kernel_build.build(out, ["sm_80"], ["examples.saxpy"])
    with pytest.raises(OutputError, match="could not be written"):
        kernel_build.build(tmp_path / "none" / "k", ["sm_80"], ["examples.saxpy"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError(28, "No space left")])
def test_interrupt_leaves_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    write = kernel_build._write

    def stop(path: Path, content: bytes) -> None:
        if path.suffix == ".json":
            raise error
        write(path, content[:3])

    monkeypatch.setattr(kernel_build, "_write", stop)
    wanted = OutputError if isinstance(error, OSError) else error
    with pytest.raises(wanted):
        kernel_build.build(tmp_path / "k", ["sm_80"], ["examples.saxpy"])
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_wheel_is_installed_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*BUILD, "--wheel", "--arch", "sm_80", "--kernel", "examples.saxpy"]
    for name in ("dist", "again"):
        (tmp_path / name).mkdir()
        assert entry.run([*words, "-o", str(tmp_path / name)]) == 0
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == f"quod_kernels-{quod.__version__}-py3-none-any.whl"
    assert wheel.read_bytes() == (tmp_path / "again" / wheel.name).read_bytes()
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target"]
    subprocess.run([*pip, str(site), str(wheel)], check=True, capture_output=True)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delenv("QUOD_KERNELS", raising=False)
    prebuilt = PrebuiltKernels.installed("sm_80")
    code = prebuilt.find_untraced(saxpy, ptx_machine(arch="sm_80"), {})
    assert code is not None
    assert code.code[:4] == b"\x7fELF"
    # The record of an installer's own files has the digests of all that the wheel has.
    assert metadata.version("quod-kernels") == quod.__version__
    files = metadata.files("quod-kernels")
    assert files is not None
    assert len([file for file in files if file.suffix == ".cubin"]) == 1


def test_record_of_a_wheel(tmp_path: Path) -> None:
    kernel_build.build(tmp_path, ["sm_80"], ["examples.saxpy"], as_wheel=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}
    (record,) = [name for name in contents if name.endswith(".dist-info/RECORD")]
    rows = list(csv.reader(contents[record].decode().splitlines()))
    assert [row[0] for row in rows] == list(contents)
    for name, digest, size in rows:
        if name == record:
            assert (digest, size) == ("", "")
        else:
            expected = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest())
            assert digest == f"sha256={expected.decode().rstrip('=')}"
            assert int(size) == len(contents[name])


def test_existing_wheel_is_not_replaced(tmp_path: Path) -> None:
    kernel_build.build(tmp_path, ["sm_80"], ["examples.saxpy"], as_wheel=True)
    (wheel,) = tmp_path.glob("*.whl")
    before = wheel.read_bytes()
    with pytest.raises(OutputError, match=r"already exists; name another folder"):
        kernel_build.build(tmp_path, ["sm_80"], ["examples.vector_add"], as_wheel=True)
    assert wheel.read_bytes() == before
    with pytest.raises(OutputError, match=r"none/quod_kernels-\S+\.whl: could not be written"):
        kernel_build.build(tmp_path / "none", ["sm_80"], ["examples.saxpy"], as_wheel=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", wheel.name]


def test_kernels_of_first_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = first_proofs.first_proof_kernels
    wanted = {"accumulate", "transform_tiles", "field_multiply"}

    def few(*arguments: Any, **named: Any) -> dict[str, list[Any]]:
        """Few of the kernels: to trace all takes ten seconds."""
        collected = collect(*arguments, curves=["bn254"], log2_domains=range(8, 9), **named)
        chosen = {}
        for arch, planned in collected.items():
            by_name = {kernel.definition.name: kernel for kernel in planned}
            chosen[arch] = [by_name[name] for name in sorted(wanted)]
        return chosen

    monkeypatch.setattr(first_proofs, "first_proof_kernels", few)
    monkeypatch.setattr(kernel_build, "assemble", lambda text, arch: (text.encode(), ""))
    out = tmp_path / "k"
    built = kernel_build.build(out, ["sm_90a", "sm_89"], ["examples.saxpy"], first_proofs=True)
    assert not built.skipped
    for arch, entries in built.made.items():
        names = {entry.kernel for entry in entries}
        assert names == wanted | {"examples.saxpy"}
        assert len({entry.trace_key for entry in entries}) == len(entries)
        digests = {entry.facts.digest for entry in entries}
        assert len(list((out / arch).iterdir())) == len(digests) + 1
    with pytest.raises(InputError, match=r"x86-64-v3 are built with --first-proofs only"):
        kernel_build.build(tmp_path / "other", ["sm_80", "x86-64-v3"], ["examples.saxpy"])
    with pytest.raises(InputError, match=r"not known for sm_87; take sm_80, sm_89, sm_90a"):
        kernel_build.build(tmp_path / "other", ["sm_87"], [], first_proofs=True)
