"""The implementation of `quod kernel build`: kernels to a folder of machine code, or its wheel."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import quod
from quod.catalogue import find, kernels
from quod.cli.display.terminal import show, show_json, show_table
from quod.cli.kernel.wheel import wheel_name, wheel_of
from quod.codegen.ptx.assembler import assemble, assembler_version
from quod.codegen.ptx.machine import DEFAULT_WORKGROUP_SIZE, architecture, ptx_machine
from quod.codegen.targets import is_written_for
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compiled_code import CompiledCode
from quod.device.cache.prebuilt import MANIFEST, Entry, code_name, manifest, prebuilt_key
from quod.device.cpu.levels import LEVELS, Level, LevelText, level_of
from quod.device.cpu.processor import host_processor, toolchain
from quod.device.cuda.compiler import emit, facts_of
from quod.device.host import usable_threads
from quod.errors import InputError, KernelError, OutputError
from quod.formats.output import advice_on, flush_directory, write_atomically
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.registry import RegisteredKernel

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
"""The default architectures by the names that devices request: GPUs since 2020."""

NATIVE = "native"
"""The name of the level of the CPU that builds."""

_MAX_PENDING = 32
"""Kernels that are traced and not yet written."""


@frozen
class Skipped:
    """A kernel that could not be built for an architecture."""

    kernel: str
    arch: str
    reason: str


@frozen
class Built:
    """The result of a build: the compiler and entries per architecture, and skipped kernels."""

    toolchains: dict[str, str]
    made: dict[str, list[Entry]]
    skipped: list[Skipped]


@frozen
class _Wanted:
    """A kernel to build: its workgroup size, None for the default, and its architectures.

    may_be_for_cpus: do not report the kernel as skipped if it is for CPUs only.
    """

    name: str
    definition: KernelDefinition
    static: Mapping[str, Any]
    lanes: int | None
    architectures: tuple[str, ...]
    may_be_for_cpus: bool = False


@frozen
class _Task:
    """A kernel to compile for an architecture.

    digest: of its text. Code for this digest is compiled once.
    compile: returns the code, for a CPU packed with its facts.
    entry_of: returns the entry and the code's file for what `compile` returned.
    """

    digest: str
    entry_of: Callable[[bytes], tuple[Entry, bytes]]
    compile: Callable[[], bytes]


def build(
    out: Path, architectures: Sequence[str], patterns: Sequence[str],
    report_progress: Callable[[str], None] = lambda text: None, *, first_proofs: bool = False,
    as_wheel: bool = False,
) -> Built:  # fmt: skip
    """Build the kernels that match a pattern into a new folder.

    Without patterns, builds all kernels that are not for CPUs alone. In a pattern ``*`` is any text
    and ``?`` any character. The folder is created completely or not at all, and not if no kernel
    was built.
    report_progress: called with a description of each kernel.
    first_proofs: build the kernels of first Groth16 proofs on usual GPUs, and others only if they
        match a pattern.
    as_wheel: `out` is a folder that exists, for the wheel, which must not exist.
    Raises InputError for an unknown architecture or kernel, KernelError if no kernel was built,
    `AssemblerMissing`, and OutputError.
    """
    names = tuple(dict.fromkeys(map(_architecture_named, architectures)))
    gpus = tuple(name for name in names if name not in LEVELS)
    levels = [name for name in names if name in LEVELS]
    if levels and not first_proofs:
        raise InputError(f"kernels for {levels[0]} are built with --first-proofs only")
    toolchains = dict.fromkeys(levels, f"LLVM {host_processor().llvm}")
    if gpus:
        toolchains |= dict.fromkeys(gpus, assembler_version())
    wheel = out / wheel_name(quod.__version__)
    registered = [find(name) for name in matching(patterns)] if patterns or not first_proofs else []
    if as_wheel and os.path.lexists(wheel):
        raise OutputError(f"{wheel}: already exists; name another folder, or remove this file")
    wanted = [
        _Wanted(kernel.name, kernel.definition, kernel.static, None, gpus, not patterns)
        for kernel in registered
    ]
    if first_proofs:
        wanted += _first_proofs(names, report_progress)
    built = Built(toolchains, {arch: [] for arch in names}, [])
    with (
        _new_folder(wheel if as_wheel else out, keep=not as_wheel) as folder,
        ThreadPoolExecutor(usable_threads()) as pool,
    ):
        _assemble_all(wanted, built, folder, pool, report_progress)
        if as_wheel:
            write_atomically(wheel, wheel_of(folder, quod.__version__), replace=False)
    return built


def _architecture_named(name: str) -> str:
    """Check the name of an architecture; `native` is the level of this CPU. Raises InputError."""
    if name == NATIVE:
        if (level := level_of(host_processor())) is None:
            raise InputError(
                f"this CPU has none of the levels {', '.join(LEVELS)} that code is built for"
            )
        return level.name
    if name not in LEVELS:
        if not name.startswith("sm_"):
            raise InputError(
                f"no architecture has the name {name}; take one of a GPU, such as sm_90a, or with "
                f"--first-proofs one of a CPU: {NATIVE}, {', '.join(LEVELS)}"
            )
        architecture(name)
    return name


def default_architectures(*, first_proofs: bool) -> tuple[str, ...]:
    """Return the default architectures of GPUs and, for first proofs, the levels of CPUs."""
    return ARCHITECTURES + (tuple(LEVELS) if first_proofs else ())


def _first_proofs(
    architectures: Sequence[str], report_progress: Callable[[str], None]
) -> list[_Wanted]:
    """List the kernels of first proofs; raises InputError for an architecture without a model."""
    # Imported here, as only this set needs the prover.
    from quod.device.cpu.level_device import LevelDevice
    from quod.device.cuda.planning import MODELS
    from quod.groth16.gpu.first_proofs import first_proof_kernels, host_kernels

    if unplanned := set(architectures) - {model.arch for model in MODELS} - set(LEVELS):
        raise InputError(
            f"the kernels of first proofs are not known for {min(unplanned)}; take "
            f"{', '.join(dict.fromkeys(model.arch for model in MODELS))}"
        )
    models = [model for model in MODELS if model.arch in architectures]
    wanted: dict[Hashable, _Wanted] = {}
    by_arch = first_proof_kernels(models, report_progress=report_progress) if models else {}
    for name in architectures:
        if name in LEVELS:
            by_arch[name] = host_kernels(LevelDevice(LEVELS[name]))
    for arch, kernels_of_arch in by_arch.items():
        for kernel in kernels_of_arch:
            identity = (kernel.definition, kernel.lanes, tuple(sorted(kernel.static.items())))
            earlier = wanted.get(identity)
            wanted[identity] = _Wanted(
                kernel.definition.name, kernel.definition, kernel.static, kernel.lanes,
                (*earlier.architectures, arch) if earlier else (arch,),
            )  # fmt: skip
    return list(wanted.values())


def _assemble_all(
    wanted: Sequence[_Wanted], built: Built, folder: Path, pool: ThreadPoolExecutor,
    report_progress: Callable[[str], None],
) -> None:  # fmt: skip
    """Trace all kernels, assemble their texts, and write the code and the manifests.

    Kernels are traced here while the pool assembles earlier ones: nvJitLink releases the
    interpreter's lock. A text is assembled once.
    """
    cache = CompileCache()
    for arch in built.made:
        os.mkdir(folder / arch, 0o755)
    codes: dict[tuple[str, str], Future[bytes | KernelError]] = {}
    pending: deque[tuple[_Wanted, dict[str, _Task | KernelError]]] = deque()

    def finish(kernel: _Wanted, tasks: Mapping[str, _Task | KernelError]) -> None:
        for arch, task in tasks.items():
            if isinstance(task, KernelError):
                built.skipped.append(Skipped(kernel.name, arch, str(task)))
                continue
            compiled = codes[arch, task.digest].result()
            if isinstance(compiled, KernelError):
                built.skipped.append(Skipped(kernel.name, arch, str(compiled)))
                continue
            entry, code = task.entry_of(compiled)
            built.made[arch].append(entry)
            _write(folder / arch / code_name(entry.facts), code)

    for number, kernel in enumerate(wanted, 1):
        report_progress(f"{number} of {len(wanted)}: {kernel.name}")
        tasks = {arch: _task_for(kernel, arch, cache) for arch in kernel.architectures}
        if _is_for_cpus_only(kernel, tasks.values()):
            if not kernel.may_be_for_cpus:
                reason = "is for CPUs only"
                built.skipped.extend(Skipped(kernel.name, arch, reason) for arch in tasks)
            continue
        for arch, task in tasks.items():
            if isinstance(task, _Task) and (arch, task.digest) not in codes:
                codes[arch, task.digest] = pool.submit(_result_of, task)
        pending.append((kernel, tasks))
        # Texts of tasks that wait take memory.
        while len(pending) > _MAX_PENDING:
            finish(*pending.popleft())
    while pending:
        finish(*pending.popleft())
    for arch, entries in built.made.items():
        if entries:
            _write(folder / arch / MANIFEST, manifest(arch, built.toolchains[arch], entries))
        else:
            os.rmdir(folder / arch)
    if not any(built.made.values()):
        skipped = built.skipped[0]
        raise KernelError(f"no kernel was built: {skipped.kernel}: {skipped.reason}")


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


def _task_for(kernel: _Wanted, arch: str, cache: CompileCache) -> _Task | KernelError:
    try:
        if arch in LEVELS:
            return _host_task(kernel, LEVELS[arch], cache)
        return _gpu_task(kernel, arch, cache)
    except KernelError as error:
        return error


def _gpu_task(kernel: _Wanted, arch: str, cache: CompileCache) -> _Task:
    size = kernel.lanes or kernel.definition.workgroup or DEFAULT_WORKGROUP_SIZE
    machine = ptx_machine(size, arch)
    traced, module = emit(kernel.definition, machine, kernel.static)
    facts = facts_of(traced, module)
    trace_key = prebuilt_key(kernel.definition, machine, kernel.static)

    def compile() -> bytes:
        code, _ = assemble(module.text, arch)
        # The linker drops setmaxnreg, so the driver must compile the text.
        return module.text.encode() + b"\0" if module.moves_registers else code

    return _Task(
        facts.digest,
        lambda code: (Entry.of(kernel.name, size, trace_key, facts, code), code),
        _cached(cache, key_of("cubin", module.text, assembler_version(), arch), compile),
    )


def _host_task(kernel: _Wanted, level: Level, cache: CompileCache) -> _Task:
    assert kernel.lanes is not None
    lanes, machine = kernel.lanes, level.machine(kernel.lanes)
    trace_key = prebuilt_key(kernel.definition, machine, kernel.static)
    text = LevelText(level, kernel.definition, machine, kernel.static)

    def entry_of(packed: bytes) -> tuple[Entry, bytes]:
        compiled = CompiledCode.unpack(packed)
        return (
            Entry.of(kernel.name, lanes, trace_key, compiled.facts, compiled.code), compiled.code
        )  # fmt: skip

    key = key_of("level", text.text, level.name, toolchain())
    return _Task(text.digest, entry_of, _cached(cache, key, lambda: text.compile().pack()))


def _cached(cache: CompileCache, key: str, compile: Callable[[], bytes]) -> Callable[[], bytes]:
    """Return a function that compiles through the cache, so that a build can resume."""

    def cached() -> bytes:
        code = cache.get(key)
        if code is None:
            code = compile()
            cache.put(key, code)
        return code

    return cached


def _result_of(task: _Task) -> bytes | KernelError:
    try:
        return task.compile()
    except KernelError as error:
        return error


def _is_for_cpus_only(kernel: _Wanted, tasks: Iterable[_Task | KernelError]) -> bool:
    """Report whether a kernel is for CPUs alone: no architecture traces it, nor is it for PTX."""
    if not all(isinstance(task, KernelError) for task in tasks):
        return False
    registered = RegisteredKernel(kernel.name, kernel.definition, kernel.static)
    return not is_written_for(registered, "ptx")


@contextmanager
def _new_folder(out: Path, *, keep: bool) -> Iterator[Path]:
    """Yield a temporary folder next to `out`, which is removed at the end.

    keep: rename the folder to `out` instead, unless there was an error.
    """
    if os.path.lexists(out):
        raise OutputError(f"{out}: already exists; name a new folder, or remove this one")
    folder = out.parent / f".quod-{os.urandom(8).hex()}.tmp"
    try:
        # Devices accept code only from folders that others cannot write.
        os.mkdir(folder, 0o755)
        yield folder
        if keep:
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
            "toolchains": built.toolchains,
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
    show(f"compiled by {' and '.join(dict.fromkeys(built.toolchains.values()))}")


def check_all_made(built: Built) -> None:
    """Raise KernelError unless all requested kernels were built."""
    made_count = sum(map(len, built.made.values()))
    if built.skipped:
        raise KernelError(
            f"{len(built.skipped)} of {made_count + len(built.skipped)} requested kernels "
            "were not built; the list gives the reasons"
        )
