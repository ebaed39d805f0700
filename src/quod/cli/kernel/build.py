"""The implementation of `quod kernel build`: registered kernels to a folder of cubins."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from quod.catalogue import find, kernels
from quod.cli.display.terminal import show, show_json, show_table
from quod.codegen.ptx.assembler import assemble, assembler_version
from quod.codegen.ptx.machine import DEFAULT_WORKGROUP_SIZE, architecture, ptx_machine
from quod.codegen.ptx.module import PtxModule
from quod.codegen.targets import is_written_for
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compiled_code import KernelFacts
from quod.device.cuda.compiler import emit, facts_of
from quod.device.cuda.prebuilt import MANIFEST, Entry, cubin_name, manifest, prebuilt_key
from quod.device.host import usable_threads
from quod.errors import InputError, KernelError, OutputError
from quod.formats.output import advice_on, flush_directory
from quod.frozen import frozen
from quod.kernel.registry import RegisteredKernel

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
"""The default architectures by the names that devices request: GPUs since 2020."""


@frozen
class Skipped:
    """A kernel that could not be built for an architecture."""

    kernel: str
    arch: str
    reason: str


@frozen
class Built:
    """The result of a build: entries per architecture, and skipped kernels."""

    toolchain: str
    made: dict[str, list[Entry]]
    skipped: list[Skipped]


@frozen
class _Task:
    entry_of: Callable[[bytes], Entry]
    module: PtxModule
    facts: KernelFacts


def build(
    out: Path, architectures: Sequence[str], patterns: Sequence[str],
    follow: Callable[[str], None] = lambda text: None,
) -> Built:  # fmt: skip
    """Build the kernels that match a pattern into a new folder.

    Without patterns, builds all kernels that are not for CPUs alone. In a pattern ``*`` is any text
    and ``?`` any character. The folder is created completely or not at all, and not if no kernel
    was built.
    follow: called for each kernel.
    Raises InputError for an unknown architecture or kernel, `AssemblerMissing`, and OutputError.
    """
    for arch in architectures:
        architecture(arch)
    toolchain, cache = assembler_version(), CompileCache()
    matching_kernels = [find(name) for name in matching(patterns)]
    built = Built(toolchain, {arch: [] for arch in dict.fromkeys(architectures)}, [])
    with _new_folder(out) as folder, ThreadPoolExecutor(usable_threads()) as pool:
        for arch in built.made:
            os.mkdir(folder / arch, 0o755)
        for number, kernel in enumerate(matching_kernels, 1):
            follow(f"{number} of {len(matching_kernels)}: {kernel.name}")
            tasks = {arch: _trace_for(kernel, arch) for arch in built.made}
            if _is_for_cpus_only(kernel, tasks.values()):
                if patterns:
                    reason = "is for CPUs only"
                    built.skipped.extend(Skipped(kernel.name, arch, reason) for arch in tasks)
                continue
            codes = pool.map(
                lambda task, arch: _assemble_task(task, arch, toolchain, cache),
                tasks.values(),
                tasks,
            )
            for (arch, task), code in zip(tasks.items(), codes, strict=True):
                if isinstance(task, _Task) and isinstance(code, bytes):
                    built.made[arch].append(task.entry_of(code))
                    _write(folder / arch / cubin_name(task.facts.digest), code)
                else:
                    built.skipped.append(Skipped(kernel.name, arch, str(code)))
        for arch, entries in built.made.items():
            if entries:
                _write(folder / arch / MANIFEST, manifest(arch, toolchain, entries))
            else:
                os.rmdir(folder / arch)
        if not any(built.made.values()):
            skipped = built.skipped[0]
            raise KernelError(f"no kernel was built: {skipped.kernel}: {skipped.reason}")
    return built


def matching(patterns: Sequence[str]) -> list[str]:
    """Return the registered names that match; raises InputError for a pattern without match."""
    names = [row.name for row in kernels()]
    matches: dict[str, None] = {} if patterns else dict.fromkeys(names)
    for pattern in patterns:
        # Brackets are part of kernel names.
        matched = fnmatch.filter(names, pattern.replace("[", "[[]"))
        if not matched:
            if ".py:" in pattern or set("*?") & set(pattern):
                raise InputError(
                    f"no registered kernel matches {pattern}; `quod kernel list` shows the names"
                )
            find(pattern)
        matches |= dict.fromkeys(matched)
    return [name for name in names if name in matches]


def _trace_for(kernel: RegisteredKernel, arch: str) -> _Task | KernelError:
    size = kernel.definition.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    try:
        traced, module = emit(kernel.definition, machine, kernel.static)
    except KernelError as error:
        return error
    facts = facts_of(traced, module)
    trace_key = prebuilt_key(kernel.definition, machine, kernel.static)
    return _Task(lambda code: Entry.of(kernel.name, size, trace_key, facts, code), module, facts)


def _is_for_cpus_only(kernel: RegisteredKernel, tasks: Iterable[_Task | KernelError]) -> bool:
    """Report whether a kernel is for CPUs alone: no architecture traces it, nor is it for PTX."""
    is_untraceable = all(isinstance(task, KernelError) for task in tasks)
    return is_untraceable and not is_written_for(kernel, "ptx")


def _assemble_task(
    task: _Task | KernelError, arch: str, toolchain: str, cache: CompileCache
) -> bytes | KernelError:
    """Return the cubin; the cache lets an interrupted build resume."""
    if not isinstance(task, _Task):
        return task
    key = key_of("cubin", task.module.text, toolchain, arch)
    code = cache.get(key)
    if code is None:
        try:
            code, _ = assemble(task.module.text, arch)
            if task.module.moves_registers:
                # The linker drops such instructions, so the driver must compile the text.
                code = task.module.text.encode() + b"\0"
        except KernelError as error:
            return error
        cache.put(key, code)
    return code


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out`, or removed after a failure."""
    if os.path.lexists(out):
        raise OutputError(f"{out}: already exists; name a new folder, or remove this one")
    folder = out.parent / f".quod-{os.urandom(8).hex()}.tmp"
    try:
        # Devices accept code only from folders that others cannot write.
        os.mkdir(folder, 0o755)
        yield folder
        os.rename(folder, out)
        flush_directory(str(out.parent))
    except OSError as error:
        raise OutputError(
            f"{out}: could not be written ({error.strerror or error}); {advice_on(error)}"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def as_json(built: Built) -> None:
    """Print a build as JSON."""
    show_json(
        {
            "toolchain": built.toolchain,
            "made": {
                arch: [entry.document() for entry in entries]
                for arch, entries in built.made.items()
            },
            "skipped": [
                {"kernel": skipped.kernel, "arch": skipped.arch, "reason": skipped.reason}
                for skipped in built.skipped
            ],
        }
    )


def print_built(built: Built) -> None:
    """Print a build as tables."""
    show_table(
        ("arch", "made", "skipped", "MB"),
        [
            (
                arch, str(len(entries)), str(sum(row.arch == arch for row in built.skipped)),
                f"{sum(entry.size for entry in entries) / 1e6:.2f}",
            )
            for arch, entries in built.made.items()
        ],
        right=("made", "skipped", "MB"),
    )  # fmt: skip
    if built.skipped:
        show_table(
            ("skipped", "arch", "reason"),
            [(row.kernel, row.arch, row.reason.split("\n")[0]) for row in built.skipped],
        )
    show(f"assembled by {built.toolchain}")


def check_all_made(built: Built) -> None:
    """Raise KernelError unless all requested kernels were built."""
    made_count = sum(map(len, built.made.values()))
    if built.skipped:
        raise KernelError(
            f"{len(built.skipped)} of {made_count + len(built.skipped)} requested kernels "
            "were not built; the list gives the reasons"
        )
